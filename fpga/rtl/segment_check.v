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

    // steps: tokens, first_position, k_addr, v_addr, crc_addr (itself, pages of K, of V, checksums), reserved words
    localparam [4:0] STEP_END = 5'd16;

    reg busy_reg;
    reg [4:0] step_reg;
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
    wire [19:0] pages = page_words[25:6];

    reg [63:0] address_next;
    reg [32:0] nbytes_next;
    wire in_ctl = step_reg == 5'd7;
    wire holds;

    window_check check (
        .base(in_ctl ? ctl_window : kv_window),
        .size(in_ctl ? ctl_window_nbytes : kv_window_nbytes),
        .address(address_next),
        .nbytes(nbytes_next),
        .holds(holds)
    );

    reg bad_next;
    reg [31:0] detail_next;
    wire [31:0] reserved_word = segment[{1'b1, step_reg[2:0], 5'd0}+:32];

    always @* begin
        case (step_reg)
            5'd2: address_next = k_addr;
            5'd3: address_next = v_addr;
            5'd5: address_next = {k_addr[63:12], 12'd0};
            5'd6: address_next = {v_addr[63:12], 12'd0};
            default: address_next = crc_addr;
        endcase
        case (step_reg)
            5'd2, 5'd3: nbytes_next = {2'd0, words, 6'd0};
            5'd5, 5'd6: nbytes_next = {1'b0, pages, 12'd0};
            default: nbytes_next = {10'd0, pages, 3'd0};
        endcase
        detail_next = `NK_SEGMENT_CRC_ADDR_LSB / 8;
        case (step_reg)
            5'd0: begin
                bad_next = tokens == 32'd0;
                detail_next = 32'd0;
            end
            5'd1: begin
                bad_next = end_position > {1'b0, `NK_POSITIONS_MAX} || !(first[3:0] == 4'd0 || follows);
                detail_next = `NK_SEGMENT_FIRST_POSITION_LSB / 8;
            end
            5'd2: begin
                bad_next = k_addr == 64'd0 || k_addr[5:0] != 6'd0 || !holds;
                detail_next = `NK_SEGMENT_K_ADDR_LSB / 8;
            end
            5'd3: begin
                bad_next = v_addr == 64'd0 || v_addr[5:0] != 6'd0 || !holds;
                detail_next = `NK_SEGMENT_V_ADDR_LSB / 8;
            end
            5'd4: bad_next = crc_addr != 64'd0 && (crc_addr[2:0] != 3'd0 || k_addr[11:0] != v_addr[11:0]);
            5'd5, 5'd6, 5'd7: bad_next = crc_addr != 64'd0 && !holds;
            default: begin
                bad_next = reserved_word != 32'd0;
                detail_next = {26'd0, 1'b1, step_reg[2:0], 2'd0};
            end
        endcase
    end

    assign done = busy_reg && (bad_next || step_reg == STEP_END - 5'd1 || is_new && step_reg == 5'd1);
    assign bad = bad_next;
    assign detail = detail_next;

    always @(posedge clk) begin
        // the usual case in one step: all eight reserved words are zero
        if (busy_reg)
            step_reg <= step_reg == 5'd7 && segment[511:256] == 256'd0 ? STEP_END - 5'd1 : step_reg + 5'd1;
        if (done) begin
            busy_reg <= 1'b0;
            end_reg <= end_position[21:0];
            end_known_reg <= 1'b1;
        end
        if (start) begin
            busy_reg <= 1'b1;
            step_reg <= 5'd0;
        end
        if (restart) begin
            busy_reg <= 1'b0;
            end_known_reg <= 1'b0;
        end
    end

endmodule

`resetall
