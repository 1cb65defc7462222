// SPDX-License-Identifier: Apache-2.0
// Takes the header of a list and checks it. Its output is the header, or the fault that ends the list.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module header_load (
    input wire clk,
    input wire rst,

    // pulse; the pointers stay until `done`
    input wire start,
    input wire [63:0] kv,
    input wire [63:0] ctl,
    input wire [63:0] out,

    input wire [511:0] s_data,
    input wire s_valid,
    output wire s_ready,
    // see job_fetch
    input wire read_error,
    input wire [255:0] read_fault,

    // pulse; the others are valid with it, the header until the next start
    output wire done,
    output wire faulty,
    output wire [255:0] fault,
    output wire [1023:0] header
);

    localparam [1:0] IDLE = 2'd0;
    localparam [1:0] TAKE = 2'd1;
    localparam [1:0] ENTER = 2'd2;
    localparam [1:0] CHECK = 2'd3;

    reg [1:0] state_reg;
    reg [1:0] taken_reg;
    reg [1023:0] header_reg;

    wire check_done;
    wire check_bad;
    wire [31:0] detail;
    wire all_taken = taken_reg == 2'd2;
    wire lost = state_reg == TAKE && all_taken && read_error;
    wire [31:0] na = `NK_NOT_APPLICABLE;

    header_check check (
        .clk(clk),
        .rst(rst),
        .start(state_reg == ENTER),
        .header(header_reg),
        .kv(kv),
        .ctl(ctl),
        .out(out),
        .done(check_done),
        .bad(check_bad),
        .detail(detail)
    );

    assign s_ready = state_reg == TAKE && !all_taken;
    assign done = lost || check_done;
    assign faulty = lost || check_bad;
    assign fault = lost ? read_fault : {64'd0, detail, na, na, na, na, `NK_STATUS_BAD_LIST};
    assign header = header_reg;

    always @(posedge clk) begin
        if (s_valid && s_ready) begin
            header_reg <= {s_data, header_reg[1023:512]};
            taken_reg <= taken_reg + 2'd1;
        end
        case (state_reg)
            IDLE:
            if (start) begin
                state_reg <= TAKE;
                taken_reg <= 2'd0;
            end
            TAKE: if (all_taken) state_reg <= read_error ? IDLE : ENTER;
            ENTER: state_reg <= CHECK;
            default: if (check_done) state_reg <= IDLE;
        endcase
        if (rst) state_reg <= IDLE;
    end

endmodule

`resetall
