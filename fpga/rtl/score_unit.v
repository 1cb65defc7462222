// SPDX-License-Identifier: Apache-2.0
// A dot product to a score (times the scale, one rounding, 48 bits) and the score to a weight P * 2^(I - 24).
// Eight cycles, one result per cycle. Does not know rows or positions.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module score_unit (
    input wire clk,

    input wire signed [54:0] s_dot,
    // scale mantissa in [2^23, 2^24)
    input wire [23:0] s_scale,
    // score = dot * scale * 2^shift
    input wire signed [9:0] s_shift,
    input wire s_valid,

    output wire [24:0] m_mantissa,
    output wire [23:0] m_whole,
    output wire m_clamped
);

    // one piece of simulator code for all instances, which then fits its caches
    /* verilator no_inline_module */

    // 1: four partial products, 2: product, 3: shifted, 4: rounded and clamped, 5 to 7: exp2
    reg valid_1_reg;
    reg valid_2_reg;
    reg valid_3_reg;
    reg [40:0] part_0_reg;
    reg [40:0] part_1_reg;
    reg [40:0] part_2_reg;
    reg signed [28:0] part_3_reg;
    reg [7:0] right_1_reg;
    reg [7:0] right_2_reg;
    reg signed [78:0] product_reg;
    reg signed [127:0] moved_reg;
    reg [47:0] score_reg;
    reg clamped_reg;
    reg [23:0] whole_5_reg;
    reg [23:0] whole_6_reg;
    reg [23:0] whole_7_reg;
    reg clamped_5_reg;
    reg clamped_6_reg;
    reg clamped_7_reg;

    wire signed [24:0] scale = {1'b0, s_scale};
    wire signed [3:0] dot_high = s_dot[54:51];
    // the product stands 48 places (and one that rounds) above the score
    wire signed [10:0] right = 11'sd48 - {s_shift[9], s_shift};
    wire [7:0] right_clipped = right < 11'sd0 ? 8'd0 : right > 11'sd128 ? 8'd128 : right[7:0];
    wire signed [127:0] wide = {product_reg, 49'd0};
    wire signed [127:0] rounded = (moved_reg + 128'sd1) >>> 1;
    wire fits = rounded[127:47] == {81{rounded[127]}};

    exp2 exp (
        .clk(clk),
        .fraction(score_reg[23:0]),
        .mantissa(m_mantissa)
    );

    assign m_whole = whole_7_reg;
    assign m_clamped = clamped_7_reg;

    always @(posedge clk) begin
        valid_1_reg <= s_valid;
        valid_2_reg <= valid_1_reg;
        valid_3_reg <= valid_2_reg;
        if (s_valid) begin
            part_0_reg <= s_dot[16:0] * s_scale;
            part_1_reg <= s_dot[33:17] * s_scale;
            part_2_reg <= s_dot[50:34] * s_scale;
            part_3_reg <= dot_high * scale;
            right_1_reg <= right_clipped;
        end
        if (valid_1_reg) begin
            product_reg <= {{9{1'b0}}, 12'd0, 17'd0, part_0_reg} + {{4{1'b0}}, 17'd0, part_1_reg, 17'd0} +
                {4'd0, part_2_reg, 34'd0} + {part_3_reg[27:0], 51'd0};
            right_2_reg <= right_1_reg;
        end
        if (valid_2_reg) moved_reg <= wide >>> right_2_reg;
        if (valid_3_reg) begin
            score_reg <= fits ? rounded[47:0] : {rounded[127], {47{!rounded[127]}}};
            clamped_reg <= !fits;
        end
        whole_5_reg <= score_reg[47:24];
        whole_6_reg <= whole_5_reg;
        whole_7_reg <= whole_6_reg;
        clamped_5_reg <= clamped_reg;
        clamped_6_reg <= clamped_5_reg;
        clamped_7_reg <= clamped_6_reg;
    end

endmodule

`resetall
