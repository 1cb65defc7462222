// SPDX-License-Identifier: Apache-2.0
// window_check is inclusion of [address, address + nbytes) in [base, base + size), with sums that cannot overflow.
`default_nettype none

module window_check_properties (
    input wire clk,
    input wire [63:0] base,
    input wire [63:0] size,
    input wire [63:0] address,
    input wire [32:0] nbytes
);

    wire holds;
    wire [65:0] window_end = {2'b0, base} + {2'b0, size};
    wire [65:0] range_end = {2'b0, address} + {33'd0, nbytes};

    window_check dut (
        .base(base),
        .size(size),
        .address(address),
        .nbytes(nbytes),
        .holds(holds)
    );

    always @* begin
        // the contract of the module
        assume (window_end <= {2'b01, 64'd0});
        assert (holds == (base <= address && range_end <= window_end));
        cover (holds && nbytes > 5 && base != 0);
        cover (!holds && address >= base && address < window_end);
        cover (holds && window_end[64] && nbytes != 0 && range_end == window_end);
    end

endmodule
