// SPDX-License-Identifier: Apache-2.0
// CRC-32C over words of 64 bytes, one word per cycle, for two streams that take turns. The data part is pipelined; only
// a 32 x 32 matrix stands in the feedback. `crc` is valid two cycles after the last word of a page.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module crc32c (
    input wire clk,

    input wire [511:0] s_data,
    input wire s_valid,
    // with the word, one cycle later: which stream, first word of a page
    input wire late_valid,
    input wire late_stream,
    input wire late_first,
    // CRC of the page up to the word whose `late_valid` is high now
    output wire [31:0] crc
);

`include "crc32c_matrix.vh"

    reg [31:0] part_reg;
    reg [31:0] state_0_reg;
    reg [31:0] state_1_reg;
    wire [31:0] part_next;
    wire [31:0] shifted;
    wire [31:0] state = late_first ? 32'hFFFFFFFF : late_stream ? state_1_reg : state_0_reg;
    wire [31:0] next = shifted ^ part_reg;

    genvar b;
    generate
        for (b = 0; b < 32; b = b + 1) begin : column
            assign part_next[b] = ^(s_data & DATA_MATRIX[b*512+:512]);
            assign shifted[b] = ^(state & STATE_MATRIX[b*32+:32]);
        end
    endgenerate

    assign crc = ~next;

    always @(posedge clk) begin
        if (s_valid) part_reg <= part_next;
        if (late_valid && !late_stream) state_0_reg <= next;
        if (late_valid && late_stream) state_1_reg <= next;
    end

endmodule

`resetall
