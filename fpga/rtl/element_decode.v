// SPDX-License-Identifier: Apache-2.0
// 32 FP16 elements to 24-bit integers at the exponent of their row, rounded half up. Two cycles. The only module that
// knows the element format; behind it everything is integers.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module element_decode (
    input wire clk,

    input wire s_valid,
    input wire [511:0] s_data,
    // exponent field of the row's largest element, at least 1
    input wire [4:0] s_top,
    // the row is there; lanes 16 to 31 are padding
    input wire s_present,
    input wire s_pad,

    // [32] of 24 bits with sign
    output wire [767:0] m_data
);

    reg valid_reg;

    always @(posedge clk) valid_reg <= s_valid;

    genvar l;
    generate
        for (l = 0; l < 32; l = l + 1) begin : lane
            wire [15:0] x = s_data[l*16+:16];
            wire [4:0] field = x[14:10] == 5'd0 ? 5'd1 : x[14:10];
            wire keep = s_present && !(s_pad && l >= 16);
            reg [10:0] significand_reg;
            reg negative_reg;
            reg [4:0] right_reg;
            reg [23:0] value_reg;

            wire signed [24:0] positive = {2'd0, significand_reg, 12'd0};
            wire signed [24:0] value = negative_reg ? -positive : positive;
            // twice the value, so that the bit that rounds is kept
            wire signed [24:0] doubled = {value[23:0], 1'b0};
            wire signed [24:0] floor_value = doubled >>> right_reg;
            wire signed [24:0] rounded = (floor_value + 25'sd1) >>> 1;

            assign m_data[l*24+:24] = value_reg;

            always @(posedge clk) begin
                if (s_valid) begin
                    significand_reg <= keep ? {x[14:10] != 5'd0, x[9:0]} : 11'd0;
                    negative_reg <= keep && x[15];
                    right_reg <= keep ? s_top - field : 5'd0;
                end
                if (valid_reg) value_reg <= rounded[23:0];
            end
        end
    endgenerate

endmodule

`resetall
