// SPDX-License-Identifier: Apache-2.0
// Three bins as one number, b0 + b1 * 2^-32 + b2 * 2^-64, to FP32, rounded once to nearest even. Five cycles.
// Every result is zero or normal.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module float_convert (
    input wire clk,

    // {b2, b1, b0} of 50 bits with sign
    input wire [149:0] s_bins,
    output wire [31:0] m_float
);

    // one piece of simulator code for all instances, which then fits its caches
    /* verilator no_inline_module */

    // 1: one number in units of 2^-64, 2: sign and magnitude, 3 and 4: highest bit on top, 5: rounded
    reg [116:0] number_reg;
    reg negative_2_reg;
    reg negative_3_reg;
    reg negative_4_reg;
    reg [127:0] magnitude_reg;
    reg [127:0] coarse_reg;
    reg [127:0] fine_reg;
    reg [6:0] coarse_left_reg;
    reg [6:0] left_reg;
    reg [31:0] float_reg;

    wire [49:0] b0 = s_bins[49:0];
    wire [49:0] b1 = s_bins[99:50];
    wire [49:0] b2 = s_bins[149:100];

    wire left_64 = magnitude_reg[127:64] == 64'd0;
    wire [127:0] by_64 = left_64 ? {magnitude_reg[63:0], 64'd0} : magnitude_reg;
    wire left_32 = by_64[127:96] == 32'd0;
    wire [127:0] by_32 = left_32 ? {by_64[95:0], 32'd0} : by_64;
    wire left_16 = by_32[127:112] == 16'd0;
    wire [127:0] by_16 = left_16 ? {by_32[111:0], 16'd0} : by_32;
    wire left_8 = coarse_reg[127:120] == 8'd0;
    wire [127:0] by_8 = left_8 ? {coarse_reg[119:0], 8'd0} : coarse_reg;
    wire left_4 = by_8[127:124] == 4'd0;
    wire [127:0] by_4 = left_4 ? {by_8[123:0], 4'd0} : by_8;
    wire left_2 = by_4[127:126] == 2'd0;
    wire [127:0] by_2 = left_2 ? {by_4[125:0], 2'd0} : by_4;
    wire left_1 = !by_2[127];
    wire [127:0] by_1 = left_1 ? {by_2[126:0], 1'b0} : by_2;

    wire up = fine_reg[103] && (fine_reg[102:0] != 103'd0 || fine_reg[104]);
    // Exponent and mantissa as one number: a carry out of the mantissa raises the exponent. The highest bit of the
    // mantissa adds one to the exponent. 127 + 127 - 64 = 190 for a number that needed no shift.
    wire [30:0] joined = {8'd189 - {1'b0, left_reg}, 23'd0} + {7'd0, fine_reg[127:104]} + {30'd0, up};

    assign m_float = float_reg;

    always @(posedge clk) begin
        number_reg <= {{3{b0[49]}}, b0, 64'd0} + {{35{b1[49]}}, b1, 32'd0} + {{67{b2[49]}}, b2};
        negative_2_reg <= number_reg[116];
        magnitude_reg <= {11'd0, number_reg[116] ? -number_reg : number_reg};
        negative_3_reg <= negative_2_reg;
        coarse_reg <= by_16;
        coarse_left_reg <= {left_64, left_32, left_16, 4'd0};
        negative_4_reg <= negative_3_reg;
        fine_reg <= by_1;
        left_reg <= coarse_left_reg | {3'd0, left_8, left_4, left_2, left_1};
        float_reg <= fine_reg[127] ? {negative_4_reg, joined} : 32'd0;
    end

endmodule

`resetall
