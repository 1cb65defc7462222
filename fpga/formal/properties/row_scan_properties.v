// SPDX-License-Identifier: Apache-2.0
// row_scan: `top` is at least each exponent field that counts, and one of them or 1; Inf and NaN are fields of 31.
`default_nettype none

module row_scan_properties (
    input wire clk,
    input wire [511:0] s_data,
    input wire s_half,
    input wire s_valid
);

    wire [4:0] top;
    wire nonfinite;

    row_scan dut (
        .clk(clk),
        .s_data(s_data),
        .s_half(s_half),
        .s_valid(s_valid),
        .top(top),
        .nonfinite(nonfinite)
    );

    reg valid = 1'b0;
    reg half;
    reg [511:0] data;
    reg met;
    reg nonfinite_met;
    integer i;

    always @(posedge clk) begin
        valid <= s_valid;
        half <= s_half;
        data <= s_data;
    end

    always @* begin
        met = top == 5'd1;
        nonfinite_met = 1'b0;
        for (i = 0; i < 32; i = i + 1) begin
            if (i < 16 || !half) begin
                met = met || data[i*16+10+:5] == top;
                nonfinite_met = nonfinite_met || data[i*16+10+:5] == 5'd31;
                if (valid) assert (data[i*16+10+:5] <= top);
            end
        end
        if (valid) begin
            assert (met && top != 0);
            assert (nonfinite == nonfinite_met);
        end
        cover (valid && top == 5'd7 && !nonfinite);
        cover (valid && nonfinite);
        cover (valid && half && top == 5'd3 && data[271+:4] == 4'd15);
    end

endmodule
