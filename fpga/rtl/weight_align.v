// SPDX-License-Identifier: Apache-2.0
// A weight moved to 26 bits at a top above its own place, rounded half up. Two cycles. Zero when it is not visible.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module weight_align (
    input wire clk,

    input wire s_valid,
    input wire [24:0] s_mantissa,
    input wire s_visible,
    // place of the weight, top of its tile: top >= place
    input wire signed [24:0] s_place,
    input wire signed [24:0] s_top,

    output wire [25:0] m_weight
);

    // one piece of simulator code for all instances, which then fits its caches
    /* verilator no_inline_module */

    reg valid_reg;
    reg [24:0] mantissa_reg;
    reg [4:0] below_reg;
    reg [25:0] weight_reg;

    // scores at both ends of their range lie 2^24 apart
    wire signed [25:0] below = {s_top[24], s_top} - {s_place[24], s_place};
    // {2 * mantissa, 0} moved down: the last bit rounds
    wire [26:0] moved = {mantissa_reg, 2'b00} >> below_reg;

    assign m_weight = weight_reg;

    always @(posedge clk) begin
        valid_reg <= s_valid;
        if (s_valid) begin
            mantissa_reg <= s_visible ? s_mantissa : 25'd0;
            below_reg <= !s_visible ? 5'd0 : below > 26'sd27 ? 5'd27 : below[4:0];
        end
        if (valid_reg) weight_reg <= moved[26:1] + {25'd0, moved[0]};
    end

endmodule

`resetall
