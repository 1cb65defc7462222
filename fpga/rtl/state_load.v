// SPDX-License-Identifier: Apache-2.0
// A stored state to the bins of its rows. Takes every word before it is done, so that an error reply outranks a bad
// state. Padding elements are ignored and become zero.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module state_load (
    input wire clk,
    input wire rst,

    // pulse; the inputs stay until `done`
    input wire start,
    input wire [6:0] rows,
    input wire [3:0] chunks,
    input wire half_last,

    input wire [511:0] s_data,
    input wire s_valid,
    output wire s_ready,

    // 8 columns of one bin: row, word of 16 columns, half of it, bin
    output wire [5:0] o_row,
    output wire [3:0] o_word,
    output wire o_half,
    output wire [1:0] o_bin,
    output wire [399:0] o_data,
    output wire o_valid,
    input wire o_ready,
    // L and T of one row
    output wire [5:0] l_row,
    output wire [149:0] l_data,
    output wire l_seen,
    output wire signed [19:0] l_top,
    output wire l_valid,
    input wire l_ready,

    // pulse; the others are valid with it
    output wire done,
    output wire bad,
    output wire [31:0] position
);

    reg busy_reg;
    // the rows' O come first, then L and T of two rows per word
    reg tail_reg;
    reg [6:0] row_reg;
    reg [1:0] bin_reg;
    reg [4:0] word_reg;
    reg [63:0] nonzero_reg;
    reg [63:0] wide_reg;
    reg bad_reg;
    reg [6:0] bad_row_reg;

    wire [5:0] words = {chunks, 2'b00};
    wire last_word = {1'b0, word_reg} + 6'd1 == words;
    // the last 16 columns of a row of 80 or 112 elements
    wire padding = half_last && {1'b0, word_reg} + 6'd2 >= words;

    reg nonzero;
    reg wide;
    integer i;

    always @* begin
        nonzero = 1'b0;
        wide = 1'b0;
        for (i = 0; i < 8; i = i + 1) begin
            if (s_data[i*64+:64] != 64'd0) nonzero = 1'b1;
            if (s_data[i*64+49+:15] != {15{s_data[i*64+63]}}) wide = 1'b1;
        end
    end

    genvar c;
    generate
        for (c = 0; c < 8; c = c + 1) begin : column
            assign o_data[c*50+:50] = padding ? 50'd0 : s_data[c*64+:50];
        end
    endgenerate

    wire [255:0] last = row_reg[0] ? s_data[511:256] : s_data[255:0];
    wire [63:0] t = last[255:192];
    wire l_nonzero = last[191:0] != 192'd0;
    wire l_wide = last[63:49] != {15{last[63]}} || last[127:113] != {15{last[127]}} ||
        last[191:177] != {15{last[191]}};
    wire empty = t == {{32{1'b1}}, `NK_EMPTY_T};
    // |T| < 2^19
    wire fits = t[63:19] == {45{t[63]}} && t[19:0] != {1'b1, 19'd0};
    wire good = empty ? !l_nonzero && !nonzero_reg[row_reg[5:0]] : fits && !l_wide && !wide_reg[row_reg[5:0]];
    wire past = row_reg == rows;

    assign o_row = row_reg[5:0];
    assign o_word = word_reg[4:1];
    assign o_half = word_reg[0];
    assign o_bin = bin_reg;
    assign o_valid = busy_reg && !tail_reg && s_valid;
    assign l_row = row_reg[5:0];
    assign l_data = {last[128+:50], last[64+:50], last[0+:50]};
    assign l_seen = !empty;
    assign l_top = t[19:0];
    assign l_valid = busy_reg && tail_reg && !past && s_valid;
    assign s_ready = busy_reg && (tail_reg ? l_valid && l_ready && (row_reg[0] || row_reg + 7'd1 == rows) : o_ready);
    assign done = busy_reg && tail_reg && past;
    assign bad = bad_reg;
    assign position = {25'd0, bad_row_reg};

    always @(posedge clk) begin
        if (o_valid && o_ready) begin
            if (nonzero && !padding) nonzero_reg[row_reg[5:0]] <= 1'b1;
            if (wide && !padding) wide_reg[row_reg[5:0]] <= 1'b1;
            word_reg <= last_word ? 5'd0 : word_reg + 5'd1;
            if (last_word) begin
                bin_reg <= bin_reg == 2'd2 ? 2'd0 : bin_reg + 2'd1;
                if (bin_reg == 2'd2) begin
                    row_reg <= row_reg + 7'd1 == rows ? 7'd0 : row_reg + 7'd1;
                    tail_reg <= row_reg + 7'd1 == rows;
                end
            end
        end
        if (l_valid && l_ready) begin
            row_reg <= row_reg + 7'd1;
            if (!good && !bad_reg) begin
                bad_reg <= 1'b1;
                bad_row_reg <= row_reg;
            end
        end
        if (done) busy_reg <= 1'b0;
        if (start) begin
            busy_reg <= 1'b1;
            tail_reg <= 1'b0;
            row_reg <= 7'd0;
            bin_reg <= 2'd0;
            word_reg <= 5'd0;
            nonzero_reg <= 64'd0;
            wide_reg <= 64'd0;
            bad_reg <= 1'b0;
        end
        if (rst) busy_reg <= 1'b0;
    end

endmodule

`resetall
