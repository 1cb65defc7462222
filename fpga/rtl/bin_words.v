// SPDX-License-Identifier: Apache-2.0
// The bins of a job as the words of its state (integers) or of its output (floats): O of all rows, then (L, T).
// Does not know addresses.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module bin_words (
    input wire clk,
    input wire rst,

    // pulse; the inputs stay until the last word has been taken
    input wire start,
    input wire integers,
    input wire [6:0] rows,
    input wire [3:0] chunks,
    input wire parity,
    input wire big,

    // see bin_store, tile_top: data one cycle after an accepted read
    output wire f_valid,
    input wire f_ready,
    output wire [9:0] f_addr,
    output wire [6:0] f_row,
    input wire [2399:0] bins,
    input wire [149:0] l_bins,
    input wire seen,
    input wire [19:0] top,

    output wire [511:0] m_data,
    output wire m_valid,
    input wire m_ready
);

    // reads of bins: done with the part; O or (L, T); place
    reg asking_reg;
    reg l_part_reg;
    reg [6:0] row_reg;
    reg [1:0] bin_reg;
    reg [3:0] column_reg;
    reg half_reg;

    wire last_column = {1'b0, column_reg} + 5'd1 == {chunks, 1'b0};
    wire last_row = row_reg + 7'd1 == rows;

    // in flight: {valid, (L, T), row complete, last of the word, half, bin 2, integers, slot 3}
    localparam STAGES = 7;
    reg [10:0] tags_reg[1:STAGES];
    wire words_room;
    wire ask = asking_reg && words_room;
    wire l_complete = last_row || (integers ? row_reg[0] : row_reg[2:0] == 3'd7);
    wire [10:0] tag_now = {
        ask && f_ready, l_part_reg, l_complete, half_reg, half_reg, bin_reg, integers, row_reg[2:0]
    };
    wire [10:0] tag_1 = tags_reg[1];
    wire [10:0] tag_2 = tags_reg[2];
    wire [10:0] tag_7 = tags_reg[7];
    integer i;

    assign f_valid = ask;
    assign f_row = {parity, row_reg[5:0]};

    bin_address bin_place (
        .parity(parity),
        .big(big),
        .chunks(chunks),
        .row(row_reg[5:0]),
        .word(column_reg),
        .addr(f_addr)
    );

    // stage 2: eight columns, or L of a row in the first of them
    reg [1199:0] eight_reg;
    reg seen_reg;
    reg [19:0] top_reg;
    reg [31:0] t_reg[3:STAGES];
    wire [511:0] integer_word;
    wire [255:0] floats;
    wire [31:0] t_word = seen_reg ? {{12{top_reg[19]}}, top_reg} : `NK_EMPTY_T;

    genvar c;
    generate
        for (c = 0; c < 8; c = c + 1) begin : column
            wire [49:0] chosen = tag_2[5:4] == 2'd0 ? eight_reg[c*150+:50] :
                tag_2[5:4] == 2'd1 ? eight_reg[c*150+50+:50] : eight_reg[c*150+100+:50];
            assign integer_word[c*64+:64] = {{14{chosen[49]}}, chosen};

            always @(posedge clk) begin
                if (tag_1[10]) begin
                    if (!seen) eight_reg[c*150+:150] <= 150'd0;
                    else if (tag_1[9]) eight_reg[c*150+:150] <= l_bins;
                    else if (tag_1[6])
                        eight_reg[c*150+:150] <= {bins[2000+c*50+:50], bins[1200+c*50+:50], bins[400+c*50+:50]};
                    else eight_reg[c*150+:150] <= {bins[1600+c*50+:50], bins[800+c*50+:50], bins[c*50+:50]};
                end
            end

            float_convert convert (
                .clk(clk),
                .s_bins(eight_reg[c*150+:150]),
                .m_float(floats[c*32+:32])
            );
        end
    endgenerate

    // (L, T) of one row: four int64, or FP32 and int32
    wire [49:0] l_0 = eight_reg[49:0];
    wire [49:0] l_1 = eight_reg[99:50];
    wire [49:0] l_2 = eight_reg[149:100];
    wire [255:0] l_integers = {
        {32{t_word[31]}}, t_word, {14{l_2[49]}}, l_2, {14{l_1[49]}}, l_1, {14{l_0[49]}}, l_0
    };

    // collects half words and rows
    reg [511:0] collect_reg;
    reg [511:0] out_data_reg;
    reg out_valid_reg;
    wire integer_now = tag_2[10] && tag_2[3];
    wire float_now = tag_7[10] && !tag_7[3];
    wire [511:0] l_integer_word = tag_2[0] ? {l_integers, collect_reg[255:0]} : {256'd0, l_integers};
    wire [31:0] t_last = t_reg[STAGES];
    reg [511:0] l_float_word;

    always @* begin
        l_float_word = tag_7[2:0] == 3'd0 ? 512'd0 : collect_reg;
        l_float_word[{tag_7[2:0], 6'd0}+:64] = {t_last, floats[31:0]};
    end

    fifo #(
        .WIDTH(512),
        .DEPTH(32),
        .SPARE(16)
    ) words (
        .clk(clk),
        .rst(rst),
        .s_data(out_data_reg),
        .s_valid(out_valid_reg),
        .s_ready(words_room),
        .m_data(m_data),
        .m_valid(m_valid),
        .m_ready(m_ready)
    );

    always @(posedge clk) begin
        if (start) begin
            asking_reg <= 1'b1;
            l_part_reg <= 1'b0;
            row_reg <= 7'd0;
            bin_reg <= 2'd0;
            column_reg <= 4'd0;
            half_reg <= 1'b0;
        end

        // integers: row, bin, column, half; floats: row, column, half; then rows
        if (ask && f_ready) begin
            if (l_part_reg) begin
                row_reg <= row_reg + 7'd1;
                if (last_row) asking_reg <= 1'b0;
            end else begin
                half_reg <= !half_reg;
                if (half_reg) begin
                    column_reg <= last_column ? 4'd0 : column_reg + 4'd1;
                    if (last_column) begin
                        bin_reg <= !integers || bin_reg == 2'd2 ? 2'd0 : bin_reg + 2'd1;
                        if (!integers || bin_reg == 2'd2) begin
                            row_reg <= last_row ? 7'd0 : row_reg + 7'd1;
                            l_part_reg <= last_row;
                        end
                    end
                end
            end
        end

        tags_reg[1] <= tag_now;
        for (i = 2; i <= STAGES; i = i + 1) tags_reg[i] <= tags_reg[i-1];
        seen_reg <= seen;
        top_reg <= top;
        t_reg[3] <= t_word;
        for (i = 4; i <= STAGES; i = i + 1) t_reg[i] <= t_reg[i-1];

        out_valid_reg <= 1'b0;
        if (integer_now) begin
            out_valid_reg <= !tag_2[9] || tag_2[8];
            out_data_reg <= tag_2[9] ? l_integer_word : integer_word;
            collect_reg <= l_integer_word;
        end
        if (float_now) begin
            out_valid_reg <= tag_7[9] ? tag_7[8] : tag_7[7];
            out_data_reg <= tag_7[9] ? l_float_word : {floats, collect_reg[255:0]};
            collect_reg <= tag_7[9] ? l_float_word : {256'd0, floats};
        end
        if (rst) begin
            asking_reg <= 1'b0;
            out_valid_reg <= 1'b0;
        end
    end

endmodule

`resetall
