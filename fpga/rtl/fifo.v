// SPDX-License-Identifier: Apache-2.0
// FIFO whose head waits in a register. `s_ready` falls SPARE entries before it is full, for writers with a pipeline.
// Does not clear its memory; only the pointers know a reset.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module fifo #(
    // bits of an entry
    parameter WIDTH = 32,
    // entries besides the one at the head; a power of two
    parameter DEPTH = 16,
    // entries that stay free when `s_ready` falls
    parameter SPARE = 0
) (
    input wire clk,
    input wire rst,

    input wire [WIDTH-1:0] s_data,
    input wire s_valid,
    output wire s_ready,

    output wire [WIDTH-1:0] m_data,
    output wire m_valid,
    input wire m_ready
);

    localparam BITS = $clog2(DEPTH);
    localparam [BITS:0] FULL = DEPTH[BITS:0];
    localparam [BITS:0] STOP = FULL - SPARE[BITS:0];

    // A module that does not exist: elaboration ends with its name.
    generate
        if (WIDTH < 1) begin : check_width
            fifo_WIDTH_must_be_at_least_1 refused ();
        end
        if (DEPTH < 2 || (DEPTH & (DEPTH - 1)) != 0) begin : check_depth
            fifo_DEPTH_must_be_a_power_of_two_from_2 refused ();
        end
        if (SPARE < 0 || SPARE >= DEPTH) begin : check_spare
            fifo_SPARE_must_be_from_0_to_DEPTH_minus_1 refused ();
        end
    endgenerate

    reg [WIDTH-1:0] mem[0:DEPTH-1];
    reg [BITS-1:0] write_reg;
    reg [BITS-1:0] read_reg;
    reg [BITS:0] count_reg;
    reg [WIDTH-1:0] head_reg;
    reg head_valid_reg;

    wire push = s_valid && count_reg != FULL;
    wire pull = count_reg != 0 && (!head_valid_reg || m_ready);

    assign s_ready = count_reg < STOP;
    assign m_data = head_reg;
    assign m_valid = head_valid_reg;

    always @(posedge clk) begin
        if (push) begin
            mem[write_reg] <= s_data;
            write_reg <= write_reg + 1'b1;
        end
        if (pull) begin
            head_reg <= mem[read_reg];
            read_reg <= read_reg + 1'b1;
        end
        if (pull) head_valid_reg <= 1'b1;
        else if (m_ready) head_valid_reg <= 1'b0;
        if (push != pull) count_reg <= push ? count_reg + 1'b1 : count_reg - 1'b1;
        if (rst) begin
            write_reg <= {BITS{1'b0}};
            read_reg <= {BITS{1'b0}};
            count_reg <= {(BITS + 1) {1'b0}};
            head_valid_reg <= 1'b0;
        end
    end

endmodule

`resetall
