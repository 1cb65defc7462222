// SPDX-License-Identifier: Apache-2.0
// Largest exponent field of the 32 FP16 elements of a word, at least 1, and whether one is Inf or NaN. One cycle.
// Lanes 16 to 31 can be left out: they are padding in the last word of a row of 80 or 112 elements.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module row_scan (
    input wire clk,

    input wire [511:0] s_data,
    input wire s_half,
    input wire s_valid,

    output wire [4:0] top,
    output wire nonfinite
);

    reg [4:0] top_next;
    reg [4:0] high_next;
    reg [4:0] top_reg;
    reg nonfinite_reg;
    integer i;

    always @* begin
        top_next = 5'd1;
        high_next = 5'd1;
        for (i = 0; i < 16; i = i + 1) begin
            if (s_data[i*16+10+:5] > top_next) top_next = s_data[i*16+10+:5];
            if (s_data[i*16+266+:5] > high_next) high_next = s_data[i*16+266+:5];
        end
        if (!s_half && high_next > top_next) top_next = high_next;
    end

    assign top = top_reg;
    assign nonfinite = nonfinite_reg;

    always @(posedge clk) begin
        if (s_valid) begin
            top_reg <= top_next;
            nonfinite_reg <= top_next == 5'd31;
        end
    end

endmodule

`resetall
