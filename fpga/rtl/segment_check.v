// SPDX-License-Identifier: Apache-2.0
// Checks segments, one per cycle, then the first position of the new rows; the first bad field in the order of
// docs/kernel-contract.md counts. Remembers only where the segment before ended.
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

    // a segment in each cycle of `start`. `is_new`: only tokens and first_position count
    input wire start,
    input wire is_new,
    input wire [511:0] segment,
    // three cycles later; `bad` and `detail` are valid with it
    output wire done,
    output wire bad,
    output wire [31:0] detail
);

    // stage 1: words, what the fields say alone; 2: pages; 3: compared with the windows
    reg [3:1] valid_reg;
    reg [3:1] is_new_reg;
    reg [63:0] k_reg[1:2];
    reg [63:0] v_reg[1:2];
    reg [63:0] crc_reg[1:2];
    reg [24:0] words_reg[1:2];
    reg [19:0] pages_reg;
    // {reserved word is not zero, which 3, crc_addr itself, v_addr, k_addr, first_position, tokens}
    reg [8:0] alone_reg[1:3];
    // {crc_addr or pages, v_addr, k_addr}
    reg [2:0] outside_reg;
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
    wire position_bad = end_position > {1'b0, `NK_POSITIONS_MAX} || !(first[3:0] == 4'd0 || follows);
    wire crc_bad = crc_addr != 64'd0 && (crc_addr[2:0] != 3'd0 || k_addr[11:0] != v_addr[11:0]);
    reg [2:0] reserved_first;
    integer i;

    always @* begin
        reserved_first = 3'd0;
        for (i = 7; i >= 0; i = i - 1) if (segment[256+32*i+:32] != 32'd0) reserved_first = i[2:0];
    end

    // from the start of the first page to the end of the last, in pages
    wire [25:0] page_words = {1'b0, words_reg[1]} + {20'd0, k_reg[1][11:6]} + 26'd63;
    wire [63:0] k_2 = k_reg[2];
    wire [63:0] v_2 = v_reg[2];
    wire [4:0] holds;

    window_check check_k (
        .base(kv_window),
        .size(kv_window_nbytes),
        .address(k_2),
        .nbytes({2'd0, words_reg[2], 6'd0}),
        .holds(holds[0])
    );

    window_check check_v (
        .base(kv_window),
        .size(kv_window_nbytes),
        .address(v_2),
        .nbytes({2'd0, words_reg[2], 6'd0}),
        .holds(holds[1])
    );

    window_check check_k_pages (
        .base(kv_window),
        .size(kv_window_nbytes),
        .address({k_2[63:12], 12'd0}),
        .nbytes({1'b0, pages_reg, 12'd0}),
        .holds(holds[2])
    );

    window_check check_v_pages (
        .base(kv_window),
        .size(kv_window_nbytes),
        .address({v_2[63:12], 12'd0}),
        .nbytes({1'b0, pages_reg, 12'd0}),
        .holds(holds[3])
    );

    window_check check_crc (
        .base(ctl_window),
        .size(ctl_window_nbytes),
        .address(crc_reg[2]),
        .nbytes({10'd0, pages_reg, 3'd0}),
        .holds(holds[4])
    );

    // the first bad field in the order of the contract
    reg bad_next;
    reg [31:0] detail_next;
    wire [8:0] alone = alone_reg[3];

    always @* begin
        bad_next = 1'b1;
        detail_next = `NK_SEGMENT_TOKENS_LSB / 8;
        if (alone[0]) detail_next = `NK_SEGMENT_TOKENS_LSB / 8;
        else if (alone[1]) detail_next = `NK_SEGMENT_FIRST_POSITION_LSB / 8;
        else if (is_new_reg[3]) bad_next = 1'b0;
        else if (alone[2] || outside_reg[0]) detail_next = `NK_SEGMENT_K_ADDR_LSB / 8;
        else if (alone[3] || outside_reg[1]) detail_next = `NK_SEGMENT_V_ADDR_LSB / 8;
        else if (alone[4] || outside_reg[2]) detail_next = `NK_SEGMENT_CRC_ADDR_LSB / 8;
        else if (alone[8]) detail_next = {26'd0, 1'b1, alone[7:5], 2'd0};
        else bad_next = 1'b0;
    end

    assign done = valid_reg[3];
    assign bad = bad_next;
    assign detail = detail_next;

    always @(posedge clk) begin
        valid_reg <= {valid_reg[2:1], start};
        is_new_reg <= {is_new_reg[2:1], is_new};
        k_reg[1] <= k_addr;
        k_reg[2] <= k_reg[1];
        v_reg[1] <= v_addr;
        v_reg[2] <= v_reg[1];
        crc_reg[1] <= crc_addr;
        crc_reg[2] <= crc_reg[1];
        // tokens are below 2^21 when this is used, so 25 bits hold the words
        words_reg[1] <= {3'd0, tokens[21:0]} * {21'd0, chunks};
        words_reg[2] <= words_reg[1];
        pages_reg <= page_words[25:6];
        alone_reg[1] <= {
            segment[511:256] != 256'd0, reserved_first, crc_bad, v_addr == 64'd0 || v_addr[5:0] != 6'd0,
            k_addr == 64'd0 || k_addr[5:0] != 6'd0, position_bad, tokens == 32'd0
        };
        alone_reg[2] <= alone_reg[1];
        alone_reg[3] <= alone_reg[2];
        outside_reg <= {crc_reg[2] != 64'd0 && holds[4:2] != 3'b111, !holds[1], !holds[0]};
        if (start) begin
            end_reg <= end_position[21:0];
            end_known_reg <= 1'b1;
        end
        if (restart) begin
            valid_reg <= 3'd0;
            end_known_reg <= 1'b0;
        end
    end

endmodule

`resetall
