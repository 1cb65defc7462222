// SPDX-License-Identifier: Apache-2.0
// Weights of 8 rows for the 128 tokens of two units. Written four rows at a time; read whole by the array, and their
// places alone by tile_top. Reads take one cycle.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module weight_buffer (
    input wire clk,

    // {half, token}; rows 0 to 3 or 4 to 7: mantissa 25, I 24, visible
    input wire w_valid,
    input wire w_upper,
    input wire [7:0] w_addr,
    input wire [4*25-1:0] w_mantissa,
    input wire [4*24-1:0] w_whole,
    input wire [3:0] w_visible,

    input wire r_valid,
    input wire [7:0] r_addr,
    output wire [8*25-1:0] r_mantissa,
    output wire [8*25-1:0] r_whole,

    // {visible, I} of each row
    input wire [7:0] t_addr,
    output wire [8*25-1:0] t_whole
);

    genvar h;
    genvar s;
    generate
        for (h = 0; h < 2; h = h + 1) begin : part
            reg [99:0] mantissa_mem[0:255];
            reg [99:0] whole_mem[0:255];
            reg [99:0] top_mem[0:255];
            reg [99:0] mantissa_reg;
            reg [99:0] whole_reg;
            reg [99:0] top_reg;
            wire [99:0] whole;

            for (s = 0; s < 4; s = s + 1) begin : slot
                assign whole[s*25+:25] = {w_visible[s], w_whole[s*24+:24]};
            end

            assign r_mantissa[h*100+:100] = mantissa_reg;
            assign r_whole[h*100+:100] = whole_reg;
            assign t_whole[h*100+:100] = top_reg;

            always @(posedge clk) begin
                if (w_valid && w_upper == (h == 1)) begin
                    mantissa_mem[w_addr] <= w_mantissa;
                    whole_mem[w_addr] <= whole;
                    top_mem[w_addr] <= whole;
                end
                if (r_valid) begin
                    mantissa_reg <= mantissa_mem[r_addr];
                    whole_reg <= whole_mem[r_addr];
                end
                top_reg <= top_mem[t_addr];
            end
        end
    endgenerate

endmodule

`resetall
