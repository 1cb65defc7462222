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

    // side by side, not one behind the other
    wire [64:0] window_end = {1'b0, base} + {1'b0, size};
    wire [64:0] range_end = {1'b0, address} + {32'd0, nbytes};

    assign holds = address >= base && range_end <= window_end;

endmodule

`resetall
