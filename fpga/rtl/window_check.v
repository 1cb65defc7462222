// SPDX-License-Identifier: Apache-2.0
// Does [address, address + nbytes) lie inside a window? Combinational. The window must not pass 2^64.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module window_check (
    input wire [63:0] base,
    input wire [63:0] size,
    input wire [63:0] address,
    input wire [32:0] nbytes,
    output wire holds
);

    wire [63:0] offset = address - base;
    wire [64:0] end_offset = {1'b0, offset} + {32'd0, nbytes};

    assign holds = address >= base && end_offset <= {1'b0, size};

endmodule

`resetall
