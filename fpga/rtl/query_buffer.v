// SPDX-License-Identifier: Apache-2.0
// q as 24-bit integers: 8 rows x 32 lanes in one read, one cycle after the address. Two jobs, by parity.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module query_buffer (
    input wire clk,

    // 16 elements: row, word of 32 elements, half of it
    input wire w_parity,
    input wire [5:0] w_row,
    input wire [2:0] w_chunk,
    input wire w_half,
    input wire [383:0] w_data,
    input wire w_valid,

    input wire r_valid,
    input wire r_parity,
    input wire [2:0] r_group,
    input wire [2:0] r_chunk,
    // row-major: [8][32] of 24 bits
    output wire [8*768-1:0] r_data
);

    genvar h;
    generate
        for (h = 0; h < 16; h = h + 1) begin : half
            localparam [3:0] PLACE = h;
            (* ram_style = "distributed" *)
            reg [383:0] mem[0:127];
            reg [383:0] data_reg;

            assign r_data[h*384+:384] = data_reg;

            always @(posedge clk) begin
                if (w_valid && {w_row[2:0], w_half} == PLACE) mem[{w_parity, w_row[5:3], w_chunk}] <= w_data;
                if (r_valid) data_reg <= mem[{r_parity, r_group, r_chunk}];
            end
        end
    endgenerate

endmodule

`resetall
