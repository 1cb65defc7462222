// SPDX-License-Identifier: Apache-2.0
// Rows of two 128-token blocks of K or of V as they came, 8 words each, and the exponent field of each row.
// Reads take one cycle.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module block_buffer (
    input wire clk,

    // {half, row 7, word 3}
    input wire w_valid,
    input wire [10:0] w_addr,
    input wire [511:0] w_data,
    // {half, row 7}
    input wire w_top_valid,
    input wire [7:0] w_top_addr,
    input wire [4:0] w_top,

    input wire r_valid,
    input wire [10:0] r_addr,
    output wire [511:0] r_data,
    output wire [4:0] r_top,
    // exponents alone
    input wire [7:0] t_addr,
    output wire [4:0] t_top
);

    reg [511:0] mem[0:2047];
    reg [4:0] top_mem[0:255];
    reg [511:0] data_reg;
    reg [4:0] top_reg;
    reg [4:0] t_top_reg;

    assign r_data = data_reg;
    assign r_top = top_reg;
    assign t_top = t_top_reg;

    always @(posedge clk) begin
        if (w_valid) mem[w_addr] <= w_data;
        if (w_top_valid) top_mem[w_top_addr] <= w_top;
        if (r_valid) begin
            data_reg <= mem[r_addr];
            top_reg <= top_mem[r_addr[10:3]];
        end
        t_top_reg <= top_mem[t_addr];
    end

endmodule

`resetall
