// SPDX-License-Identifier: Apache-2.0
// What the score units need of each row: the positions [low, high) that it sees and the power of two of its scores.
// Eight rows (a group) are read at once, one cycle after their address.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module row_table (
    input wire clk,

    // rows of one job are selected by `w_parity`
    input wire w_parity,
    input wire [5:0] w_limit_row,
    input wire [21:0] w_low,
    input wire [21:0] w_high,
    input wire w_limit_valid,
    input wire [5:0] w_shift_row,
    input wire [9:0] w_shift,
    input wire w_shift_valid,

    input wire r_parity,
    input wire [2:0] r_group,
    output wire [8*22-1:0] r_low,
    output wire [8*22-1:0] r_high,
    output wire [8*10-1:0] r_shift
);

    genvar s;
    generate
        for (s = 0; s < 8; s = s + 1) begin : slot
            localparam [2:0] SLOT = s;
            reg [43:0] limit_mem[0:15];
            reg [9:0] shift_mem[0:15];
            reg [43:0] limit_reg;
            reg [9:0] shift_reg;

            assign r_low[s*22+:22] = limit_reg[21:0];
            assign r_high[s*22+:22] = limit_reg[43:22];
            assign r_shift[s*10+:10] = shift_reg;

            always @(posedge clk) begin
                if (w_limit_valid && w_limit_row[2:0] == SLOT)
                    limit_mem[{w_parity, w_limit_row[5:3]}] <= {w_high, w_low};
                if (w_shift_valid && w_shift_row[2:0] == SLOT)
                    shift_mem[{w_parity, w_shift_row[5:3]}] <= w_shift;
                limit_reg <= limit_mem[{r_parity, r_group}];
                shift_reg <= shift_mem[{r_parity, r_group}];
            end
        end
    endgenerate

endmodule

`resetall
