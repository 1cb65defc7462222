// SPDX-License-Identifier: Apache-2.0
// The array: one operation of array_sequencer per cycle through decode, alignment and 8 x 32 products. Dots leave for
// the score units, tile sums for the bins. Does not decide anything.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module array_core (
    input wire clk,
    input wire rst,

    // see array_sequencer
    input wire op_valid,
    input wire op_is_v,
    input wire [10:0] op_addr,
    input wire op_weights,
    input wire op_parity,
    input wire [2:0] op_group,
    input wire [13:0] op_block,
    input wire op_first,
    input wire op_last,
    input wire op_pad,
    input wire op_present,
    input wire [1:0] op_tile,
    input wire [3:0] op_chunks,
    input wire op_end,
    input wire op_empty,

    // one cycle after the operation: block buffers, weights, descriptor of the tile
    input wire [511:0] k_data,
    input wire [4:0] k_top,
    input wire [511:0] v_data,
    input wire [4:0] v_top,
    input wire [8*25-1:0] w_mantissa,
    input wire [8*25-1:0] w_whole,
    input wire [8*56-1:0] descriptor,

    // query_buffer: one cycle
    output wire q_valid,
    output wire q_parity,
    output wire [2:0] q_group,
    output wire [2:0] q_chunk,
    input wire [8*768-1:0] q_data,

    // see score_stage
    output wire [8*55-1:0] dots,
    output wire dots_valid,
    output wire dots_parity,
    output wire [2:0] dots_group,
    output wire dots_weights,
    output wire [20:0] dots_position,
    output wire [4:0] dots_top,
    output wire dots_end,

    // see bin_update
    output wire sums_valid,
    output wire [14:0] sums_tag,
    output wire [256*54-1:0] sums,
    output wire [8*30-1:0] weight_sums
);

    // tags of the stages: {end, empty, tile 2, parity, group 3, chunk 3, chunks 4, weights, row 7, block 14}
    localparam LAST = 8;
    wire [36:0] tag_now = {
        op_end, op_empty, op_tile, op_parity, op_group, op_addr[2:0], op_chunks, op_weights, op_addr[9:3], op_block
    };
    reg [36:0] tags_reg[1:LAST];
    reg [LAST:1] valid_reg;
    reg [LAST:1] is_v_reg;
    reg [LAST:1] first_reg;
    reg [LAST:1] last_reg;
    reg [4:0] tops_reg[2:LAST];
    reg present_reg;
    reg pad_reg;
    integer i;

    wire [767:0] elements;
    // the tag and the words that bin_update needs, one cycle before the sums stand
    wire [36:0] tag_6 = tags_reg[6];
    wire [36:0] tag_8 = tags_reg[8];
    wire [36:0] tag_3 = tags_reg[3];
    wire [36:0] tag_2 = tags_reg[2];

    element_decode decode (
        .clk(clk),
        .s_valid(valid_reg[1]),
        .s_data(is_v_reg[1] ? v_data : k_data),
        .s_top(is_v_reg[1] ? v_top : k_top),
        .s_present(present_reg),
        .s_pad(pad_reg),
        .m_data(elements)
    );

    assign q_valid = valid_reg[2] && !is_v_reg[2];
    assign q_parity = tag_2[32];
    assign q_group = tag_2[31:29];
    assign q_chunk = tag_2[28:26];

    genvar r;
    generate
        for (r = 0; r < 8; r = r + 1) begin : row
            wire signed [23:0] whole = w_whole[r*25+:24];
            wire visible = w_whole[r*25+24] && present_reg;
            wire [25:0] weight;
            wire [25:0] l_weight;
            reg [29:0] l_sum_reg;
            reg [29:0] l_done_reg;

            weight_align o_align (
                .clk(clk),
                .s_valid(valid_reg[1] && is_v_reg[1]),
                .s_mantissa(w_mantissa[r*25+:25]),
                .s_visible(visible),
                .s_place({whole[23], whole} + {20'd0, v_top}),
                .s_top(descriptor[r*56+:25]),
                .m_weight(weight)
            );

            weight_align l_align (
                .clk(clk),
                .s_valid(valid_reg[1] && is_v_reg[1]),
                .s_mantissa(w_mantissa[r*25+:25]),
                .s_visible(visible),
                .s_place({whole[23], whole}),
                .s_top({descriptor[r*56+48], descriptor[r*56+25+:24]}),
                .m_weight(l_weight)
            );

            array_row cells (
                .clk(clk),
                .s_valid(valid_reg[3]),
                .s_is_v(is_v_reg[3]),
                .s_first(first_reg[3]),
                .s_last(last_reg[3]),
                .s_elements(elements),
                .s_query(q_data[r*768+:768]),
                .s_weight(weight),
                .dot(dots[r*55+:55]),
                .sums(sums[r*1728+:1728])
            );

            assign weight_sums[r*30+:30] = l_done_reg;

            always @(posedge clk) begin
                if (valid_reg[3] && is_v_reg[3] && tag_3[28:26] == 3'd0)
                    l_sum_reg <= {4'd0, l_weight} + (first_reg[3] ? 30'd0 : l_sum_reg);
                if (valid_reg[4] && is_v_reg[4] && last_reg[4]) l_done_reg <= l_sum_reg;
            end
        end
    endgenerate

    assign dots_valid = valid_reg[8] && !is_v_reg[8] && last_reg[8];
    assign dots_parity = tag_8[32];
    assign dots_group = tag_8[31:29];
    assign dots_weights = tag_8[21];
    assign dots_position = {tag_8[13:0], tag_8[20:14]};
    assign dots_top = tops_reg[8];
    assign dots_end = tag_8[36];
    assign sums_valid = valid_reg[6] && is_v_reg[6] && last_reg[6];
    assign sums_tag = tag_6[36:22];

    always @(posedge clk) begin
        valid_reg <= {valid_reg[LAST-1:1], op_valid && !rst};
        is_v_reg <= {is_v_reg[LAST-1:1], op_is_v};
        first_reg <= {first_reg[LAST-1:1], op_first};
        last_reg <= {last_reg[LAST-1:1], op_last};
        present_reg <= op_present;
        pad_reg <= op_pad;
        tags_reg[1] <= tag_now;
        for (i = 2; i <= LAST; i = i + 1) tags_reg[i] <= tags_reg[i-1];
        tops_reg[2] <= k_top;
        for (i = 3; i <= LAST; i = i + 1) tops_reg[i] <= tops_reg[i-1];
    end

endmodule

`resetall
