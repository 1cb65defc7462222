// SPDX-License-Identifier: Apache-2.0
// 2^f for a fraction of 24 bits, as a mantissa of 25 bits in [2^24, 2^25): table of 1024 entries and chord. Three cycles.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module exp2 (
    input wire clk,
    input wire [23:0] fraction,
    output wire [24:0] mantissa
);

    // {slope 15, base without its highest bit 24}
    reg [38:0] table_mem[0:1023];
    reg [38:0] entry_reg;
    reg [13:0] rest_reg;
    reg [28:0] product_reg;
    reg [23:0] base_reg;
    reg [24:0] mantissa_reg;

`include "exp2_table.vh"

    // (slope * rest + 2^13) >> 14
    wire [28:0] rounded = product_reg + 29'd8192;
    wire [25:0] sum = {2'b01, base_reg} + {11'd0, rounded[28:14]};

    assign mantissa = mantissa_reg;

    always @(posedge clk) begin
        entry_reg <= table_mem[fraction[23:14]];
        rest_reg <= fraction[13:0];
        product_reg <= entry_reg[38:24] * rest_reg;
        base_reg <= entry_reg[23:0];
        mantissa_reg <= sum[25] ? 25'h1FFFFFF : sum[24:0];
    end

endmodule

`resetall
