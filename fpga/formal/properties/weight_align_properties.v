// SPDX-License-Identifier: Apache-2.0
// weight_align: for every mantissa, place and top the weight is the nearest integer, halves upwards, to
// 2 * mantissa / 2^(top - place), and 0 for a weight that is not visible.
`default_nettype none

module weight_align_properties (
    input wire clk,
    input wire s_valid,
    input wire [24:0] s_mantissa,
    input wire s_visible,
    input wire signed [24:0] s_place,
    input wire signed [24:0] s_top
);

    wire [25:0] m_weight;

    weight_align dut (
        .clk(clk),
        .s_valid(s_valid),
        .s_mantissa(s_mantissa),
        .s_visible(s_visible),
        .s_place(s_place),
        .s_top(s_top),
        .m_weight(m_weight)
    );

    reg valid_1 = 1'b0;
    reg valid_2 = 1'b0;
    reg visible_1;
    reg visible_2;
    reg [24:0] mantissa_1;
    reg [24:0] mantissa_2;
    reg signed [24:0] place_1;
    reg signed [24:0] place_2;
    reg signed [24:0] top_1;
    reg signed [24:0] top_2;

    always @(posedge clk) begin
        valid_1 <= s_valid;
        visible_1 <= s_visible;
        mantissa_1 <= s_mantissa;
        place_1 <= s_place;
        top_1 <= s_top;
        valid_2 <= valid_1;
        visible_2 <= visible_1;
        mantissa_2 <= mantissa_1;
        place_2 <= place_1;
        top_2 <= top_1;
    end

    wire signed [26:0] below = top_2 - place_2;
    wire [5:0] right = below > 27'sd40 ? 6'd40 : below[5:0];
    // twice the exact value and twice the integer, both times 2^right; 2^40 is beyond every mantissa
    wire [71:0] exact = {45'd0, mantissa_2, 2'b00};
    wire [71:0] scaled = {46'd0, m_weight} << (right + 6'd1);
    wire [71:0] half = 72'd1 << right;

    always @* begin
        assume (!s_valid || s_top >= s_place);
        if (valid_2 && !visible_2) assert (m_weight == 0);
        if (valid_2 && visible_2) begin
            assert (scaled <= exact + half);
            assert (scaled + half > exact);
        end
        cover (valid_2 && visible_2 && m_weight == 26'd3);
        cover (valid_2 && visible_2 && below > 27'sd33000000);
        cover (valid_2 && visible_2 && scaled == exact + half);
    end

endmodule
