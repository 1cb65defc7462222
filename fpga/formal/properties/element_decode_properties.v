// SPDX-License-Identifier: Apache-2.0
// element_decode: for every FP16 element, row exponent and lane the integer is the nearest one, halves upwards, to
// (-1)^s * significand * 2^12 / 2^(top - field); absent rows and padding give 0.
`default_nettype none

module element_decode_properties #(
    // the lane that is looked at; 32: any
    parameter LANE = 32
) (
    input wire clk,
    input wire s_valid,
    input wire [511:0] s_data,
    input wire [4:0] s_top,
    input wire s_present,
    input wire s_pad,
    input wire [4:0] any_lane
);

    wire [4:0] lane = LANE == 32 ? any_lane : LANE[4:0];
    wire [767:0] m_data;

    element_decode dut (
        .clk(clk),
        .s_valid(s_valid),
        .s_data(s_data),
        .s_top(s_top),
        .s_present(s_present),
        .s_pad(s_pad),
        .m_data(m_data)
    );

    // the element two cycles ago
    reg valid_1 = 1'b0;
    reg valid_2 = 1'b0;
    reg [15:0] x_1;
    reg [15:0] x_2;
    reg [4:0] top_1;
    reg [4:0] top_2;
    reg zero_1;
    reg zero_2;
    reg [4:0] lane_1;
    reg [4:0] lane_2;
    wire [511:0] data_on_top = s_data >> {lane, 4'd0};
    wire [15:0] x = data_on_top[15:0];

    always @(posedge clk) begin
        valid_1 <= s_valid;
        x_1 <= x;
        top_1 <= s_top;
        zero_1 <= !s_present || s_pad && lane[4];
        lane_1 <= lane;
        lane_2 <= lane_1;
        valid_2 <= valid_1;
        x_2 <= x_1;
        top_2 <= top_1;
        zero_2 <= zero_1;
    end

    wire [4:0] field = x[14:10] == 0 ? 5'd1 : x[14:10];
    wire [4:0] field_2 = x_2[14:10] == 0 ? 5'd1 : x_2[14:10];
    wire [4:0] right = top_2 - field_2;
    wire signed [63:0] significand = {52'd0, x_2[14:10] != 0, x_2[9:0]};
    // twice the exact value and twice the integer, both times 2^right
    wire signed [63:0] exact = x_2[15] ? -(significand <<< 13) : significand <<< 13;
    wire [767:0] value_on_top = m_data >> ((LANE == 32 ? {5'd0, lane_2} : {5'd0, lane}) * 10'd24);
    wire signed [23:0] value = value_on_top[23:0];
    wire signed [63:0] wide = {{40{value[23]}}, value};
    wire signed [63:0] scaled = wide <<< (right + 6'd1);
    wire signed [63:0] half = 64'sd1 <<< right;

    always @* begin
        // the row's exponent is its largest
        assume (!s_valid || s_top >= field);
        if (valid_2 && zero_2) assert (value == 0);
        if (valid_2 && !zero_2) begin
            assert (scaled <= exact + half);
            assert (scaled > exact - half);
        end
        cover (valid_2 && !zero_2 && value == -24'sd5);
        cover (valid_2 && !zero_2 && right == 5'd29 && x_2[14:0] != 0);
        cover (valid_2 && zero_2 && x_2[9]);
        cover (valid_2 && scaled == exact + half);
    end

endmodule
