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

    reg [39:0] fours;
    reg [4:0] top_next;
    reg [4:0] high_next;
    reg [4:0] top_reg;
    reg nonfinite_reg;
    integer i;

    // the largest of four: two comparisons deep, where a loop over them would be three
    function [4:0] largest;
        input [19:0] fields;
        reg [4:0] low;
        reg [4:0] high;
        begin
            low = fields[4:0] > fields[9:5] ? fields[4:0] : fields[9:5];
            high = fields[14:10] > fields[19:15] ? fields[14:10] : fields[19:15];
            largest = low > high ? low : high;
        end
    endfunction

    always @* begin
        for (i = 0; i < 8; i = i + 1)
            fours[i*5+:5] = largest({s_data[i*64+58+:5], s_data[i*64+42+:5], s_data[i*64+26+:5], s_data[i*64+10+:5]});
        top_next = largest(fours[19:0]);
        high_next = largest(fours[39:20]);
        if (!s_half && high_next > top_next) top_next = high_next;
        if (top_next == 5'd0) top_next = 5'd1;
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
