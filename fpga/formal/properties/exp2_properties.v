// SPDX-License-Identifier: Apache-2.0
// exp2 as one function: what the exhaustive evaluation reads. The properties are in exhaustive.py.
`default_nettype none

module exp2_properties (
    input wire clk,
    input wire [23:0] fraction,
    output wire [24:0] mantissa
);

    exp2 dut (
        .clk(clk),
        .fraction(fraction),
        .mantissa(mantissa)
    );

endmodule
