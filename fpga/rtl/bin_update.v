// SPDX-License-Identifier: Apache-2.0
// Tile sums of 8 rows x 32 lanes to the bins, 16 columns per cycle, and the rows' sums of weights to L. Takes 16 cycles,
// in which the sums must stand still. The same word comes again after 32 cycles at the earliest.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module bin_update (
    input wire clk,
    input wire rst,

    // the sums stand from the next cycle on: {end, empty, tile 2, parity, group 3, chunk 3, chunks 4}
    input wire s_valid,
    input wire [14:0] s_tag,
    // [8][32] of 54 bits; sums of aligned weights [8] of 30 bits
    input wire [256*54-1:0] sums,
    input wire [8*30-1:0] weight_sums,
    // jobs of either parity whose bins fill the store
    input wire [1:0] big,

    // see tile_top
    output wire [1:0] tile,
    input wire [8*56-1:0] descriptor,

    // see bin_store
    output wire read,
    output wire [9:0] read_addr,
    output wire [6:0] read_row,
    input wire [2399:0] read_data,
    input wire [149:0] read_l_data,
    output wire write,
    output wire [9:0] write_addr,
    output wire [2399:0] write_data,
    output wire l_write,
    output wire [6:0] l_row,
    output wire [149:0] l_data,

    // pulse: the last bins of a job have been written
    output wire job_done
);

    reg busy_reg;
    reg [3:0] step_reg;
    reg [14:0] tag_reg;

    wire [3:0] chunks = tag_reg[3:0];
    wire [2:0] chunk = tag_reg[6:4];
    wire [2:0] group = tag_reg[9:7];
    wire parity = tag_reg[10];
    wire empty = tag_reg[13];
    wire job_end = tag_reg[14];
    wire [2:0] row = step_reg[3:1];
    wire [55:0] one = descriptor[row*56+:56];
    wire signed [24:0] r_above = one[24:0] - 25'sd9;
    wire [4:0] rl_above = one[29:25] + 5'd5;
    wire active = busy_reg && one[55] && !empty;
    wire [9:0] addr;

    bin_address bin_place (
        .parity(parity),
        .big(big[parity]),
        .chunks(chunks),
        .row({group, row}),
        .word({chunk, step_reg[0]}),
        .addr(addr)
    );

    assign tile = s_valid ? s_tag[12:11] : tag_reg[12:11];
    assign read = active;
    assign read_addr = addr;
    assign read_row = {parity, group, row};

    // stages: sum at hand (1), shifted (2), added (3)
    reg valid_1_reg;
    reg valid_2_reg;
    reg valid_3_reg;
    reg l_1_reg;
    reg l_2_reg;
    reg l_3_reg;
    reg end_1_reg;
    reg end_2_reg;
    reg end_3_reg;
    reg end_4_reg;
    reg [9:0] addr_1_reg;
    reg [9:0] addr_2_reg;
    reg [9:0] addr_3_reg;
    reg [6:0] row_1_reg;
    reg [6:0] row_2_reg;
    reg [6:0] row_3_reg;
    reg [16*54-1:0] sums_reg;
    reg [29:0] weight_sum_reg;
    reg [4:0] o_place_reg;
    reg [4:0] l_place_reg;
    reg [1:0] o_down_reg;
    reg [1:0] l_down_reg;
    reg [1:0] old_down_reg;

    genvar c;
    generate
        for (c = 0; c < 16; c = c + 1) begin : column
            wire [149:0] bins;

            bin_lane lane (
                .clk(clk),
                .s_valid(valid_1_reg),
                .s_sum(sums_reg[c*54+:54]),
                .s_place(o_place_reg),
                .s_down(o_down_reg),
                .s_old_down(old_down_reg),
                .s_bins({read_data[1600+c*50+:50], read_data[800+c*50+:50], read_data[c*50+:50]}),
                .m_bins(bins)
            );

            assign write_data[c*50+:50] = bins[49:0];
            assign write_data[800+c*50+:50] = bins[99:50];
            assign write_data[1600+c*50+:50] = bins[149:100];
        end
    endgenerate

    // a sum of weights has its lowest bit 23 places above that of a tile sum
    bin_lane l_lane (
        .clk(clk),
        .s_valid(l_1_reg),
        .s_sum({1'b0, weight_sum_reg, 23'd0}),
        .s_place(l_place_reg),
        .s_down(l_down_reg),
        .s_old_down(old_down_reg),
        .s_bins(read_l_data),
        .m_bins(l_data)
    );

    assign write = valid_3_reg;
    assign write_addr = addr_3_reg;
    assign l_write = l_3_reg;
    assign l_row = row_3_reg;
    assign job_done = end_4_reg;

    always @(posedge clk) begin
        if (busy_reg) step_reg <= step_reg + 4'd1;
        if (busy_reg && step_reg == 4'd15) busy_reg <= 1'b0;
        if (s_valid) begin
            busy_reg <= 1'b1;
            step_reg <= 4'd0;
            tag_reg <= s_tag;
        end
        valid_1_reg <= active;
        l_1_reg <= active && !step_reg[0] && chunk == 3'd0;
        end_1_reg <= busy_reg && job_end && step_reg == 4'd15;
        if (active) begin
            addr_1_reg <= addr;
            row_1_reg <= {parity, group, row};
            sums_reg <= sums[step_reg*864+:864];
            weight_sum_reg <= weight_sums[row*30+:30];
            o_place_reg <= r_above[4:0];
            l_place_reg <= rl_above;
            o_down_reg <= one[50:49];
            l_down_reg <= one[52:51];
            old_down_reg <= one[54:53];
        end
        valid_2_reg <= valid_1_reg;
        l_2_reg <= l_1_reg;
        end_2_reg <= end_1_reg;
        addr_2_reg <= addr_1_reg;
        row_2_reg <= row_1_reg;
        valid_3_reg <= valid_2_reg;
        l_3_reg <= l_2_reg;
        end_3_reg <= end_2_reg;
        end_4_reg <= end_3_reg;
        addr_3_reg <= addr_2_reg;
        row_3_reg <= row_2_reg;
        if (rst) begin
            busy_reg <= 1'b0;
            valid_1_reg <= 1'b0;
            l_1_reg <= 1'b0;
            end_1_reg <= 1'b0;
        end
    end

endmodule

`resetall
