// SPDX-License-Identifier: Apache-2.0
// Checks a list header, all fields side by side and the three windows one after the other; the first bad one in the
// order of docs/kernel-contract.md counts. Does not read the header.
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

    // checks: 3 fields, reserved word 3, 3 bases, 4 of each window, 10 reserved words from word 22 on
    localparam CHECKS = 29;
    localparam [4:0] BASES = 5'd4;
    localparam [4:0] WINDOWS = 5'd7;
    localparam [4:0] RESERVED = 5'd19;

    // cycles since `start`: the window of a master is selected in 0 to 2 and judged in the next
    reg busy_reg;
    reg [2:0] step_reg;
    reg [63:0] base_reg;
    reg [63:0] size_reg;
    reg [63:0] pointer_reg;
    reg [32:0] used_reg;
    reg [11:0] window_bad_reg;

    wire [31:0] jobs = header[`NK_LIST_JOBS_LSB+:32];
    wire [1:0] master = step_reg[1:0];
    wire [63:0] pointer = master == 2'd0 ? kv : master == 2'd1 ? ctl : out;
    wire [32:0] list_nbytes = {12'd0, jobs[12:0], 8'd0} + `NK_LIST_NBYTES;
    wire [32:0] used = master == 2'd0 ? 33'd1 : master == 2'd1 ? list_nbytes : {14'd0, jobs[12:0], 6'd0};

    // base + size passes 2^64
    wire [64:0] end_address = {1'b0, base_reg} + {1'b0, size_reg};
    wire passes = end_address[64] && end_address[63:0] != 64'd0;
    wire holds_byte;
    wire holds_used;
    wire [3:0] window_bad = {
        !holds_used, !holds_byte, size_reg[5:0] != 6'd0 || size_reg == 64'd0 || passes, base_reg[5:0] != 6'd0
    };

    window_check check_byte (
        .base(base_reg),
        .size(size_reg),
        .address(pointer_reg),
        .nbytes(33'd1),
        .holds(holds_byte)
    );

    window_check check_used (
        .base(base_reg),
        .size(size_reg),
        .address(pointer_reg),
        .nbytes(used_reg),
        .holds(holds_used)
    );

    // fields stand still while the windows are judged, so what is found in them waits in registers
    reg [6:0] field_bad;
    reg [9:0] reserved_bad;
    reg [6:0] field_bad_reg;
    reg [9:0] reserved_bad_reg;
    wire [CHECKS-1:0] failed = {reserved_bad_reg, window_bad_reg, field_bad_reg};
    reg [4:0] first;
    reg [31:0] detail_next;
    wire [3:0] window_index = first[3:0] - WINDOWS[3:0];
    integer i;

    always @* begin
        field_bad[0] = header[`NK_LIST_MAGIC_LSB+:32] != `NK_LIST_MAGIC;
        field_bad[1] = header[`NK_LIST_VERSION_LSB+:32] != `NK_CONTRACT_VERSION;
        field_bad[2] = jobs == 32'd0 || jobs > `NK_JOBS_MAX;
        field_bad[3] = header[96+:32] != 32'd0;
        field_bad[4] = header[`NK_LIST_KV_BASE_LSB+:64] != kv || kv[5:0] != 6'd0;
        field_bad[5] = header[`NK_LIST_KV_BASE_LSB+64+:64] != ctl || ctl[5:0] != 6'd0;
        field_bad[6] = header[`NK_LIST_KV_BASE_LSB+128+:64] != out || out[5:0] != 6'd0;
        for (i = 0; i < 10; i = i + 1) reserved_bad[i] = header[(22+i)*32+:32] != 32'd0;
    end

    // the first bad field in the order of the contract
    always @* begin
        first = 5'd0;
        for (i = CHECKS - 1; i >= 0; i = i - 1) if (failed[i]) first = i[4:0];
        if (first < BASES) detail_next = {25'd0, first, 2'd0};
        else if (first < WINDOWS) detail_next = {27'd0, first[1:0], 3'd0} + `NK_LIST_KV_BASE_LSB / 8;
        else if (first < RESERVED)
            detail_next = {26'd0, window_index[3:2], window_index[0], 3'd0} + `NK_LIST_KV_WINDOW_LSB / 8;
        else detail_next = {25'd0, first + 5'd3, 2'd0};
    end

    assign done = busy_reg && step_reg == 3'd4;
    assign bad = failed != {CHECKS{1'b0}};
    assign detail = detail_next;

    always @(posedge clk) begin
        if (busy_reg) step_reg <= step_reg + 3'd1;
        base_reg <= header[{master, 7'd0}+`NK_LIST_KV_WINDOW_LSB+:64];
        size_reg <= header[{master, 7'd0}+`NK_LIST_KV_WINDOW_NBYTES_LSB+:64];
        pointer_reg <= pointer;
        field_bad_reg <= field_bad;
        reserved_bad_reg <= reserved_bad;
        used_reg <= used;
        if (busy_reg && step_reg != 3'd0 && step_reg != 3'd4) window_bad_reg <= {window_bad, window_bad_reg[11:4]};
        if (done) busy_reg <= 1'b0;
        if (start) begin
            busy_reg <= 1'b1;
            step_reg <= 3'd0;
        end
        if (rst) busy_reg <= 1'b0;
    end

endmodule

`resetall
