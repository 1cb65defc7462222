// SPDX-License-Identifier: Apache-2.0
// Rows of q (FP32) to block integers: finds the row's exponent, then writes its elements 16 at a time.
// Takes every row before it is done, so that an error reply outranks an Inf or NaN.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module query_load (
    input wire clk,
    input wire rst,

    // pulse; the inputs stay until `done`
    input wire start,
    input wire [6:0] rows,
    input wire [3:0] chunks,
    input wire half_last,
    input wire signed [7:0] scale_exponent,

    input wire [511:0] s_data,
    input wire s_valid,
    output wire s_ready,

    // 16 integers: row, word of 32 elements, half of it
    output wire [5:0] q_row,
    output wire [2:0] q_chunk,
    output wire q_half,
    output wire [383:0] q_data,
    output wire q_valid,
    // the power of two of a row's scores without that of K; valid for one cycle per row
    output wire signed [9:0] shift,
    output wire shift_valid,

    // pulse; the others are valid with it
    output wire done,
    output wire bad,
    output wire [31:0] position
);

    // words of 16 FP32 of two rows: one comes in while the other is converted
    reg [511:0] row_mem[0:31];
    reg busy_reg;
    // rows taken, word of the row that comes in, its largest exponent so far
    reg [6:0] in_row_reg;
    reg [3:0] in_word_reg;
    reg [7:0] in_top_reg;
    // the row to convert
    reg converting_reg;
    reg [6:0] row_reg;
    reg [3:0] word_reg;
    reg [7:0] top_reg;
    reg bad_reg;
    reg [6:0] bad_row_reg;

    wire [4:0] words = {chunks, 1'b0};
    wire in_last = {1'b0, in_word_reg} + 5'd1 == words;
    wire last = {1'b0, word_reg} + 5'd1 == words;
    // the last half word of a row of 80 or 112 elements is padding
    wire in_padding = half_last && in_last;
    // the last word of a row waits for the row before it
    wire ready = busy_reg && in_row_reg != rows && (!in_last || !converting_reg || last);
    wire take = ready && s_valid;

    // the largest of four: all pairs are compared side by side, so a tree of these is half as deep as one of pairs
    function [7:0] largest;
        input [31:0] fields;
        reg [7:0] a;
        reg [7:0] b;
        reg [7:0] c;
        reg [7:0] d;
        begin
            {d, c, b, a} = fields;
            largest = a >= b && a >= c && a >= d ? a : b >= c && b >= d ? b : c >= d ? c : d;
        end
    endfunction

    // largest exponent field of the word, and with it of the row
    reg [31:0] fours;
    reg [7:0] word_top;
    integer i;

    always @* begin
        for (i = 0; i < 4; i = i + 1)
            fours[i*8+:8] = largest({s_data[i*128+119+:8], s_data[i*128+87+:8], s_data[i*128+55+:8], s_data[i*128+23+:8]});
        word_top = largest(fours);
    end

    wire [7:0] top_next = !in_padding && word_top > in_top_reg ? word_top : in_top_reg;
    wire nonfinite = !in_padding && word_top == 8'hFF;

    // conversion, one cycle after the read of row_mem
    reg [511:0] raw_reg;
    reg raw_valid_reg;
    reg raw_padding_reg;
    reg [7:0] raw_top_reg;
    reg [5:0] raw_row_reg;
    reg [3:0] raw_word_reg;

    genvar e;
    generate
        for (e = 0; e < 16; e = e + 1) begin : element
            wire [31:0] x = raw_reg[e*32+:32];
            wire [7:0] field = x[30:23] == 8'd0 ? 8'd1 : x[30:23];
            wire [7:0] distance = raw_top_reg - field;
            wire [4:0] right = distance > 8'd26 ? 5'd26 : distance[4:0];
            wire signed [24:0] significand = {1'b0, x[30:23] != 8'd0, x[22:0]};
            wire signed [24:0] value = x[31] ? -significand : significand;
            // value / 2 / 2^distance, rounded half up; 2^23 is clipped
            wire signed [24:0] floor_value = value >>> right;
            wire signed [24:0] rounded = (floor_value + 25'sd1) >>> 1;
            wire clip = !rounded[24] && rounded[23];
            assign q_data[e*24+:24] = raw_padding_reg ? 24'd0 : clip ? 24'h7FFFFF : rounded[23:0];
        end
    endgenerate

    assign s_ready = ready;
    assign q_row = raw_row_reg;
    assign q_chunk = raw_word_reg[3:1];
    assign q_half = raw_word_reg[0];
    assign q_valid = raw_valid_reg;
    // e = top - 126; scores have their lowest bit at eq + ek + scale_exponent - 46
    assign shift = $signed({2'd0, raw_top_reg}) + {{2{scale_exponent[7]}}, scale_exponent} - 10'sd172;
    assign shift_valid = raw_valid_reg && raw_word_reg == 4'd0;
    assign done = busy_reg && row_reg == rows && !raw_valid_reg;
    assign bad = bad_reg;
    assign position = {25'd0, bad_row_reg};

    always @(posedge clk) begin
        if (take) begin
            row_mem[{in_row_reg[0], in_word_reg}] <= s_data;
            in_top_reg <= in_last ? 8'd1 : top_next;
            in_word_reg <= in_last ? 4'd0 : in_word_reg + 4'd1;
            if (in_last) in_row_reg <= in_row_reg + 7'd1;
            if (nonfinite && !bad_reg) begin
                bad_reg <= 1'b1;
                bad_row_reg <= in_row_reg;
            end
        end
        raw_valid_reg <= busy_reg && converting_reg;
        if (converting_reg) begin
            raw_reg <= row_mem[{row_reg[0], word_reg}];
            raw_padding_reg <= half_last && last;
            raw_top_reg <= top_reg;
            raw_row_reg <= row_reg[5:0];
            raw_word_reg <= word_reg;
            word_reg <= last ? 4'd0 : word_reg + 4'd1;
            if (last) begin
                converting_reg <= 1'b0;
                row_reg <= row_reg + 7'd1;
            end
        end
        if (take && in_last) begin
            converting_reg <= 1'b1;
            top_reg <= top_next;
        end
        if (done) busy_reg <= 1'b0;
        if (start) begin
            busy_reg <= 1'b1;
            converting_reg <= 1'b0;
            row_reg <= 7'd0;
            word_reg <= 4'd0;
            in_row_reg <= 7'd0;
            in_word_reg <= 4'd0;
            in_top_reg <= 8'd1;
            bad_reg <= 1'b0;
        end
        if (rst) begin
            busy_reg <= 1'b0;
            converting_reg <= 1'b0;
            raw_valid_reg <= 1'b0;
        end
    end

endmodule

`resetall
