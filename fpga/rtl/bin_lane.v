// SPDX-License-Identifier: Apache-2.0
// One tile sum cut at multiples of 32 and added to three bins that never carry into each other. Two cycles.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module bin_lane (
    input wire clk,

    // sum, and the place of its lowest bit above the third bin of its tile, minus 11
    input wire s_valid,
    input wire [53:0] s_sum,
    input wire [4:0] s_place,
    // registers by which the tile's top bin, and the old bins, lie under the new T
    input wire [1:0] s_down,
    input wire [1:0] s_old_down,
    // {third, second, first} of 50 bits
    input wire [149:0] s_bins,

    output wire [149:0] m_bins
);

    // one piece of simulator code for all instances, which then fits its caches
    /* verilator no_inline_module */

    reg valid_reg;
    reg [49:0] piece_0_reg;
    reg [49:0] piece_1_reg;
    reg [49:0] piece_2_reg;
    reg [49:0] old_0_reg;
    reg [49:0] old_1_reg;
    reg [49:0] old_2_reg;
    reg [49:0] bin_0_reg;
    reg [49:0] bin_1_reg;
    reg [49:0] bin_2_reg;

    wire [95:0] moved = {{31{s_sum[53]}}, s_sum, 11'd0} << s_place;
    wire [49:0] top = {{18{moved[95]}}, moved[95:64]};
    wire [49:0] middle = {18'd0, moved[63:32]};
    wire [49:0] bottom = {18'd0, moved[31:0]};

    assign m_bins = {bin_2_reg, bin_1_reg, bin_0_reg};

    always @(posedge clk) begin
        valid_reg <= s_valid;
        if (s_valid) begin
            piece_0_reg <= s_down == 2'd0 ? top : 50'd0;
            piece_1_reg <= s_down == 2'd0 ? middle : s_down == 2'd1 ? top : 50'd0;
            piece_2_reg <= s_down == 2'd0 ? bottom : s_down == 2'd1 ? middle : s_down == 2'd2 ? top : 50'd0;
            old_0_reg <= s_old_down == 2'd0 ? s_bins[49:0] : 50'd0;
            old_1_reg <= s_old_down == 2'd0 ? s_bins[99:50] : s_old_down == 2'd1 ? s_bins[49:0] : 50'd0;
            old_2_reg <= s_old_down == 2'd0 ? s_bins[149:100] : s_old_down == 2'd1 ? s_bins[99:50] :
                s_old_down == 2'd2 ? s_bins[49:0] : 50'd0;
        end
        if (valid_reg) begin
            bin_0_reg <= piece_0_reg + old_0_reg;
            bin_1_reg <= piece_1_reg + old_1_reg;
            bin_2_reg <= piece_2_reg + old_2_reg;
        end
    end

endmodule

`resetall
