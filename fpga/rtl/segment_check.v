// SPDX-License-Identifier: Apache-2.0
// Checks segments one after the other, then the first position of the new rows, in the order of
// docs/kernel-contract.md. Remembers only where the segment before ended.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module segment_check (
    input wire clk,

    // pulse: the next segment is the first of its job
    input wire restart,
    // words of 64 bytes per row
    input wire [3:0] chunks,
    input wire [63:0] kv_window,
    input wire [63:0] kv_window_nbytes,
    input wire [63:0] ctl_window,
    input wire [63:0] ctl_window_nbytes,

    // pulse; `segment` stays until `done`. `is_new`: only tokens and first_position count
    input wire start,
    input wire is_new,
    input wire [511:0] segment,
    // pulse; `bad` and `detail` are valid with it
    output wire done,
    output wire bad,
    output wire [31:0] detail
);

    // cycles since `start`: 0 counts words and pages, 1 compares with the windows, 2 tells
    reg busy_reg;
    reg [1:0] step_reg;
    reg [24:0] words_reg;
    reg [19:0] pages_reg;
    reg position_bad_reg;
    reg [4:0] holds_reg;
    reg reserved_bad_reg;
    // where the segment before ended
    reg [21:0] end_reg;
    reg end_known_reg;

    wire [31:0] tokens = segment[`NK_SEGMENT_TOKENS_LSB+:32];
    wire [31:0] first = segment[`NK_SEGMENT_FIRST_POSITION_LSB+:32];
    wire [63:0] k_addr = segment[`NK_SEGMENT_K_ADDR_LSB+:64];
    wire [63:0] v_addr = segment[`NK_SEGMENT_V_ADDR_LSB+:64];
    wire [63:0] crc_addr = segment[`NK_SEGMENT_CRC_ADDR_LSB+:64];
    wire [32:0] end_position = {1'b0, tokens} + {1'b0, first};
    wire follows = end_known_reg && first == {10'd0, end_reg};
    // tokens are below 2^21 when this is used, so 25 bits hold the words
    wire [24:0] words = {3'd0, tokens[21:0]} * {21'd0, chunks};
    // from the start of the first page to the end of the last, in pages
    wire [25:0] page_words = {1'b0, words} + {20'd0, k_addr[11:6]} + 26'd63;
    wire [4:0] holds;

    window_check check_k (
        .base(kv_window),
        .size(kv_window_nbytes),
        .address(k_addr),
        .nbytes({2'd0, words_reg, 6'd0}),
        .holds(holds[0])
    );

    window_check check_v (
        .base(kv_window),
        .size(kv_window_nbytes),
        .address(v_addr),
        .nbytes({2'd0, words_reg, 6'd0}),
        .holds(holds[1])
    );

    window_check check_k_pages (
        .base(kv_window),
        .size(kv_window_nbytes),
        .address({k_addr[63:12], 12'd0}),
        .nbytes({1'b0, pages_reg, 12'd0}),
        .holds(holds[2])
    );

    window_check check_v_pages (
        .base(kv_window),
        .size(kv_window_nbytes),
        .address({v_addr[63:12], 12'd0}),
        .nbytes({1'b0, pages_reg, 12'd0}),
        .holds(holds[3])
    );

    window_check check_crc (
        .base(ctl_window),
        .size(ctl_window_nbytes),
        .address(crc_addr),
        .nbytes({10'd0, pages_reg, 3'd0}),
        .holds(holds[4])
    );

    reg bad_next;
    reg [31:0] detail_next;
    reg [2:0] reserved_first;
    integer i;

    // the first bad field in the order of the contract
    always @* begin
        reserved_first = 3'd0;
        for (i = 7; i >= 0; i = i - 1) if (segment[256+32*i+:32] != 32'd0) reserved_first = i[2:0];
        bad_next = 1'b1;
        detail_next = 32'd0;
        if (tokens == 32'd0) detail_next = 32'd0;
        else if (position_bad_reg) detail_next = `NK_SEGMENT_FIRST_POSITION_LSB / 8;
        else if (is_new) bad_next = 1'b0;
        else if (k_addr == 64'd0 || k_addr[5:0] != 6'd0 || !holds_reg[0]) detail_next = `NK_SEGMENT_K_ADDR_LSB / 8;
        else if (v_addr == 64'd0 || v_addr[5:0] != 6'd0 || !holds_reg[1]) detail_next = `NK_SEGMENT_V_ADDR_LSB / 8;
        else if (crc_addr != 64'd0 && (crc_addr[2:0] != 3'd0 || k_addr[11:0] != v_addr[11:0] || holds_reg[4:2] != 3'b111))
            detail_next = `NK_SEGMENT_CRC_ADDR_LSB / 8;
        else if (reserved_bad_reg) detail_next = {26'd0, 1'b1, reserved_first, 2'd0};
        else bad_next = 1'b0;
    end

    assign done = busy_reg && step_reg == 2'd2;
    assign bad = bad_next;
    assign detail = detail_next;

    always @(posedge clk) begin
        if (busy_reg) step_reg <= step_reg + 2'd1;
        words_reg <= words;
        pages_reg <= page_words[25:6];
        if (busy_reg && step_reg == 2'd0)
            position_bad_reg <= end_position > {1'b0, `NK_POSITIONS_MAX} || !(first[3:0] == 4'd0 || follows);
        reserved_bad_reg <= segment[511:256] != 256'd0;
        holds_reg <= holds;
        if (done) begin
            busy_reg <= 1'b0;
            end_reg <= end_position[21:0];
            end_known_reg <= 1'b1;
        end
        if (start) begin
            busy_reg <= 1'b1;
            step_reg <= 2'd0;
        end
        if (restart) begin
            busy_reg <= 1'b0;
            end_known_reg <= 1'b0;
        end
    end

endmodule

`resetall
