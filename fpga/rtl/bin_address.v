// SPDX-License-Identifier: Apache-2.0
// Place of 16 columns of a row in bin_store. Two jobs share the store by parity unless one is `big`. Combinational.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module bin_address (
    input wire parity,
    input wire big,
    // words of 64 bytes in a row of K: 2, 3, 4 or 8
    input wire [3:0] chunks,
    input wire [5:0] row,
    input wire [3:0] word,
    output wire [9:0] addr
);

    wire [9:0] place = chunks[3] ? {row, word} : chunks[2] || chunks[0] ? {1'b0, row, word[2:0]} :
        {2'b00, row, word[1:0]};

    assign addr = {big ? place[9] : parity, place[8:0]};

endmodule

`resetall
