// SPDX-License-Identifier: Apache-2.0
// float_convert: for every three bins the result is the FP32 nearest to b0 + b1 * 2^-32 + b2 * 2^-64, of two equally
// near the even one. Said of the result, without computing it: how far it lies from the number. In two steps that meet in the normalised
// magnitude: it is the number's, and the result is the float nearest to it.
`default_nettype none

module float_convert_properties (
    input wire clk,
    input wire [149:0] s_bins
);

    wire [31:0] m_float;

    float_convert dut (
        .clk(clk),
        .s_bins(s_bins),
        .m_float(m_float)
    );

    // the first cycle's bins, and the cycle
    reg [2:0] cycle = 3'd0;
    reg [149:0] bins;

    always @(posedge clk) begin
        if (cycle != 3'd7) cycle <= cycle + 3'd1;
        if (cycle == 3'd0) bins <= s_bins;
    end

    wire signed [49:0] b0 = bins[49:0];
    wire signed [49:0] b1 = bins[99:50];
    wire signed [49:0] b2 = bins[149:100];
    // in units of 2^-64
    wire signed [127:0] number = ({{78{b0[49]}}, b0} <<< 64) + ({{78{b1[49]}}, b1} <<< 32) + {{78{b2[49]}}, b2};
    wire [127:0] magnitude = number < 0 ? -number : number;

    // the cycle before the result: the magnitude with its highest bit on top, and how far it was moved
    wire [127:0] probe_fine;
    wire [6:0] probe_left;
    wire probe_negative;
    reg [127:0] fine;
    reg [6:0] left;
    reg negative;

    always @(posedge clk) begin
        fine <= probe_fine;
        left <= probe_left;
        negative <= probe_negative;
    end

    // In units of fine's lowest bit the result is its significand moved by 104, or by 105 after a carry.
    wire [7:0] exponent = m_float[30:23];
    wire [23:0] significand = {1'b1, m_float[22:0]};
    wire [9:0] place = {2'd0, exponent} + {3'd0, left};
    wire carried = place == 10'd191;
    wire [129:0] value = carried ? {1'b0, significand, 105'd0} : {2'b0, significand, 104'd0};
    wire [129:0] unit = carried ? 130'd1 << 105 : 130'd1 << 104;
    wire above = value > {2'b0, fine};
    wire [129:0] distance = above ? value - {2'b0, fine} : {2'b0, fine} - value;

    always @* begin
        // first: what is rounded is the magnitude, moved left without loss
        if (cycle == 3'd4) begin
            assert (probe_negative == (number < 0));
            assert (probe_fine >> probe_left == magnitude);
            assert (probe_fine == magnitude << probe_left);
            assert (probe_fine[127] == (number != 0));
        end
        // then, for all such numbers: exponent - 150 + 64 + left is the power of two of the significand
        if (cycle == 3'd5 && (fine[127] || fine == 0)) begin
            if (fine == 0) assert (m_float == 32'd0);
            else begin
                assert (m_float[31] == negative);
                assert (place == 10'd190 || carried);
                assert ({distance, 1'b0} <= {1'b0, unit});
                if ({distance, 1'b0} == {1'b0, unit}) assert (!significand[0]);
                // the neighbour below a power of two is half as far
                if (above && significand[22:0] == 0) assert ({distance, 2'b0} <= {2'b0, unit});
            end
        end
        cover (cycle == 3'd5 && m_float == 32'h3F800001);
        cover (cycle == 3'd5 && m_float == 32'h80000000 + (8'd63 << 23));
        cover (cycle == 3'd5 && exponent > 8'd170 && {distance, 1'b0} == {1'b0, unit});
        cover (cycle == 3'd5 && fine[127] && carried);
    end

endmodule
