// SPDX-License-Identifier: Apache-2.0
// Checks a list header, one field per cycle, in the order of docs/kernel-contract.md; stops at the first bad one.
// Does not read it.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module header_check (
    input wire clk,
    input wire rst,

    // pulse; `header` and the pointers stay until `done`
    input wire start,
    input wire [1023:0] header,
    input wire [63:0] kv,
    input wire [63:0] ctl,
    input wire [63:0] out,

    // pulse; `bad` and `detail` (offset of the field) are valid with it
    output wire done,
    output wire bad,
    output wire [31:0] detail
);

    // steps: three u32 fields, reserved word 12, three bases, four checks for each window, ten reserved words
    localparam [4:0] STEP_WINDOW = 5'd7;
    localparam [4:0] STEP_RESERVED = 5'd19;
    localparam [4:0] STEP_END = 5'd29;

    reg busy_reg;
    reg [4:0] step_reg;

    wire [31:0] jobs = header[`NK_LIST_JOBS_LSB+:32];
    wire [4:0] window_step = step_reg - STEP_WINDOW;
    wire [1:0] master = step_reg < STEP_WINDOW ? step_reg[1:0] : window_step[3:2];
    wire [63:0] pointer = master == 2'd0 ? kv : master == 2'd1 ? ctl : out;
    wire [63:0] named = header[{master, 6'd0}+`NK_LIST_KV_BASE_LSB+:64];
    wire [63:0] base = header[{master, 7'd0}+`NK_LIST_KV_WINDOW_LSB+:64];
    wire [63:0] size = header[{master, 7'd0}+`NK_LIST_KV_WINDOW_NBYTES_LSB+:64];
    wire [32:0] full_nbytes = {12'd0, jobs[12:0], 8'd0} + `NK_LIST_NBYTES;
    wire [32:0] used = master == 2'd0 ? 33'd1 : master == 2'd1 ? full_nbytes : {14'd0, jobs[12:0], 6'd0};
    // base + size passes 2^64
    wire [64:0] end_address = {1'b0, base} + {1'b0, size};
    wire passes = end_address[64] && end_address[63:0] != 64'd0;
    wire holds;
    wire [4:0] reserved_index = step_reg - STEP_RESERVED + 5'd22;
    wire [31:0] reserved_word = header[{reserved_index, 5'd0}+:32];

    window_check check (
        .base(base),
        .size(size),
        .address(pointer),
        .nbytes(window_step[1:0] == 2'd2 ? 33'd1 : used),
        .holds(holds)
    );

    reg bad_next;
    reg [31:0] detail_next;

    always @* begin
        bad_next = 1'b0;
        detail_next = {25'd0, step_reg, 2'd0};
        if (step_reg == 5'd0) bad_next = header[`NK_LIST_MAGIC_LSB+:32] != `NK_LIST_MAGIC;
        else if (step_reg == 5'd1) bad_next = header[`NK_LIST_VERSION_LSB+:32] != `NK_CONTRACT_VERSION;
        else if (step_reg == 5'd2) bad_next = jobs == 32'd0 || jobs > `NK_JOBS_MAX;
        else if (step_reg == 5'd3) bad_next = header[96+:32] != 32'd0;
        else if (step_reg < STEP_WINDOW) begin
            bad_next = named != pointer || pointer[5:0] != 6'd0;
            detail_next = {27'd0, master, 3'd0} + `NK_LIST_KV_BASE_LSB / 8;
        end else if (step_reg < STEP_RESERVED) begin
            // window, its size, the pointer inside, what is used inside
            case (window_step[1:0])
                2'd0: bad_next = base[5:0] != 6'd0;
                2'd1: bad_next = size[5:0] != 6'd0 || size == 64'd0 || passes;
                default: bad_next = !holds;
            endcase
            detail_next = {26'd0, master, window_step[0], 3'd0} + `NK_LIST_KV_WINDOW_LSB / 8;
        end else begin
            bad_next = reserved_word != 32'd0;
            detail_next = {25'd0, reserved_index, 2'd0};
        end
    end

    // the usual case in one step: all reserved words are zero
    wire all_zero = step_reg == STEP_RESERVED && header[1023:704] == 320'd0;

    assign done = busy_reg && (bad_next || all_zero || step_reg == STEP_END - 5'd1);
    assign bad = bad_next;
    assign detail = detail_next;

    always @(posedge clk) begin
        if (busy_reg) step_reg <= step_reg + 5'd1;
        if (done) busy_reg <= 1'b0;
        if (start) begin
            busy_reg <= 1'b1;
            step_reg <= 5'd0;
        end
        if (rst) busy_reg <= 1'b0;
    end

endmodule

`resetall
