// SPDX-License-Identifier: Apache-2.0
// crc32c as one function: the register after a word, from the register before it. The properties are in exhaustive.py.
`default_nettype none

module crc32c_properties #(
    parameter STREAM = 0
) (
    input wire clk,
    input wire [31:0] before,
    input wire [511:0] data,
    output wire [31:0] after
);

    wire [31:0] crc;

    crc32c dut (
        .clk(clk),
        .s_data(data),
        .s_valid(1'b1),
        .late_valid(1'b1),
        .late_stream(STREAM[0]),
        .late_first(1'b0),
        .crc(crc)
    );

    assign after = ~crc;

endmodule
