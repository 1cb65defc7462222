// SPDX-License-Identifier: Apache-2.0
// Checks the fields of a job; the first bad one in the order of docs/kernel-contract.md counts. Twelve cycles.
// Does not judge `new_first` of a job with new rows: that needs the segments.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module job_check (
    input wire clk,
    input wire rst,

    // pulse; the inputs stay until `done`
    input wire start,
    input wire [2047:0] job,
    input wire [63:0] ctl_window,
    input wire [63:0] ctl_window_nbytes,
    input wire [63:0] out_window,
    input wire [63:0] out_window_nbytes,

    // pulse; what follows is valid with it and stays
    output wire done,
    output wire bad,
    output wire [31:0] detail,
    // words of 64 bytes per row of K or V: 2, 3, 4 or 8
    output wire [3:0] chunks,
    // the last word of a row holds only 16 elements
    output wire half_last,
    // query rows of one query token
    output wire [6:0] group
);

    // checks: 12 u32 fields, 10 addresses, 32 reserved words from word 32 on
    localparam CHECKS = 54;
    localparam [5:0] ADDRESSES = 6'd12;
    localparam [5:0] RESERVED = 6'd22;
    // an address is selected in each of ten cycles and judged in the next
    localparam [3:0] STEP_END = 4'd11;

    reg busy_reg;
    reg [3:0] step_reg;
    reg [3:0] chunks_reg;
    reg half_reg;
    reg size_known_reg;
    // rows / query_tokens, one bit in each of the first seven cycles: rest, then the bits of rows that are left above
    // those of the quotient
    reg [6:0] rest_reg;
    reg [6:0] quotient_reg;
    reg bad_reg;
    reg [31:0] detail_reg;
    reg done_reg;

    reg [63:0] address_reg;
    reg [32:0] nbytes_reg;
    reg in_out_reg;
    reg must_zero_reg;
    reg may_zero_reg;
    reg [9:0] address_bad_reg;

    wire [31:0] opcode = job[`NK_JOB_OPCODE_LSB+:32];
    wire [31:0] flags = job[`NK_JOB_FLAGS_LSB+:32];
    wire [31:0] head_size = job[`NK_JOB_HEAD_SIZE_LSB+:32];
    wire [31:0] rows = job[`NK_JOB_ROWS_LSB+:32];
    wire [31:0] query_tokens = job[`NK_JOB_QUERY_TOKENS_LSB+:32];
    wire [31:0] mantissa = job[`NK_JOB_SCALE_MANTISSA_LSB+:32];
    wire [31:0] exponent = job[`NK_JOB_SCALE_EXPONENT_LSB+:32];
    wire [31:0] window = job[`NK_JOB_WINDOW_LSB+:32];
    wire [31:0] segments = job[`NK_JOB_SEGMENTS_LSB+:32];
    wire [31:0] new_tokens = job[`NK_JOB_NEW_TOKENS_LSB+:32];
    wire identify = opcode == `NK_OPCODE_IDENTIFY;

    wire [7:0] rest_above = {rest_reg, quotient_reg[6]};
    wire fits = rest_above >= {1'b0, query_tokens[6:0]};
    wire [6:0] rest_next = fits ? rest_above[6:0] - query_tokens[6:0] : rest_above[6:0];

    // fields of eight bytes start at byte 48
    wire [63:0] address = job[{1'b0, step_reg, 6'd0}+`NK_JOB_Q_ADDR_LSB+:64];
    // rows * d_pad / 32
    wire [10:0] row_words = {4'd0, rows[6:0]} * {7'd0, chunks_reg};
    wire [32:0] q_nbytes = {15'd0, row_words, 7'd0};
    wire [32:0] new_nbytes = {16'd0, {4'd0, new_tokens[6:0]} * {7'd0, chunks_reg}, 6'd0};
    // words that hold (L, T) of the rows: two rows in a state, eight in an output
    wire [6:0] state_last = (rows[6:0] + 7'd1) >> 1;
    wire [32:0] state_nbytes = {14'd0, row_words, 8'd0} + {13'd0, row_words, 9'd0} + {20'd0, state_last, 6'd0};
    wire [6:0] last_words = (rows[6:0] + 7'd7) >> 3;
    wire [32:0] output_nbytes = q_nbytes + {20'd0, last_words, 6'd0};

    wire holds;

    window_check check (
        .base(in_out_reg ? out_window : ctl_window),
        .size(in_out_reg ? out_window_nbytes : ctl_window_nbytes),
        .address(address_reg),
        .nbytes(nbytes_reg),
        .holds(holds)
    );

    wire address_bad = address_reg == 64'd0 ? !(must_zero_reg || may_zero_reg) :
        must_zero_reg || address_reg[5:0] != 6'd0 || !holds;

    // fields stand still while the addresses are judged, so what is found in them waits in registers
    reg [11:0] field_bad;
    reg [31:0] reserved_bad;
    reg [11:0] field_bad_reg;
    reg [31:0] reserved_bad_reg;
    wire [CHECKS-1:0] failed = {reserved_bad_reg, address_bad_reg, field_bad_reg};
    reg [5:0] first;
    reg [31:0] detail_next;
    wire [3:0] address_index = first[3:0] - ADDRESSES[3:0];
    integer i;

    always @* begin
        for (i = 0; i < 12; i = i + 1) field_bad[i] = job[i*32+:32] != 32'd0;
        if (!identify) begin
            field_bad[0] = opcode != `NK_OPCODE_ATTEND;
            field_bad[1] = (flags & ~`NK_JOB_FLAG_RAW) != 32'd0;
            field_bad[2] = !size_known_reg;
            field_bad[3] = job[96+:32] != `NK_ELEMENT_FORMAT_FP16;
            field_bad[4] = rows == 32'd0 || rows > `NK_ROWS_MAX;
            field_bad[5] = query_tokens == 32'd0 || query_tokens > `NK_QUERY_TOKENS_MAX || rest_reg != 7'd0;
            field_bad[6] = mantissa < 32'h00800000 || mantissa > 32'h00FFFFFF;
            field_bad[7] = $signed(exponent) < -32'sd126 || $signed(exponent) > 32'sd127;
            field_bad[8] = window >= `NK_POSITIONS_MAX;
            field_bad[9] = segments > `NK_SEGMENTS_MAX;
            field_bad[10] = new_tokens > `NK_NEW_TOKENS_MAX;
            field_bad[11] = new_tokens == 32'd0 && job[`NK_JOB_NEW_FIRST_LSB+:32] != 32'd0;
        end else field_bad[0] = 1'b0;
        for (i = 0; i < 32; i = i + 1) reserved_bad[i] = job[1024+i*32+:32] != 32'd0;
    end

    // the first bad field in the order of the contract
    always @* begin
        first = 6'd0;
        for (i = CHECKS - 1; i >= 0; i = i - 1) if (failed[i]) first = i[5:0];
        if (first < ADDRESSES) detail_next = {24'd0, first, 2'd0};
        else if (first < RESERVED) detail_next = {25'd0, address_index, 3'd0} + `NK_JOB_Q_ADDR_LSB / 8;
        else detail_next = {24'd0, first + 6'd10, 2'd0};
    end

    assign done = done_reg;
    assign bad = bad_reg;
    assign detail = detail_reg;
    assign chunks = chunks_reg;
    assign half_last = half_reg;
    assign group = quotient_reg;

    always @(posedge clk) begin
        done_reg <= busy_reg && step_reg == STEP_END;
        bad_reg <= failed != {CHECKS{1'b0}};
        detail_reg <= detail_next;
        field_bad_reg <= field_bad;
        reserved_bad_reg <= reserved_bad;

        address_reg <= address;
        in_out_reg <= step_reg == 4'd5 || step_reg == 4'd6 || step_reg > 4'd7;
        may_zero_reg <= !identify && step_reg > 4'd6;
        case (step_reg)
            4'd0, 4'd1: must_zero_reg <= identify;
            4'd2: must_zero_reg <= segments == 32'd0;
            4'd3, 4'd4: must_zero_reg <= new_tokens == 32'd0;
            4'd5, 4'd6: must_zero_reg <= new_tokens == 32'd0 || job[`NK_JOB_TAIL_K_ADDR_LSB+:64] == 64'd0;
            default: must_zero_reg <= identify && step_reg != 4'd9;
        endcase
        case (step_reg)
            4'd0: nbytes_reg <= q_nbytes;
            4'd1: nbytes_reg <= {23'd0, query_tokens[6:0], 3'd0};
            4'd2: nbytes_reg <= {9'd0, segments[17:0], 6'd0};
            4'd3, 4'd4, 4'd5, 4'd6: nbytes_reg <= new_nbytes;
            4'd7, 4'd8: nbytes_reg <= state_nbytes;
            default: nbytes_reg <= identify ? 33'd64 : flags[0] ? state_nbytes : output_nbytes;
        endcase

        if (busy_reg) begin
            step_reg <= step_reg + 4'd1;
            if (step_reg != 4'd0 && step_reg != STEP_END) address_bad_reg <= {address_bad, address_bad_reg[9:1]};
            if (step_reg < 4'd7) begin
                rest_reg <= rest_next;
                quotient_reg <= {quotient_reg[5:0], fits};
            end
            if (step_reg == STEP_END) busy_reg <= 1'b0;
        end
        if (start) begin
            busy_reg <= 1'b1;
            step_reg <= 4'd0;
            rest_reg <= 7'd0;
            quotient_reg <= rows[6:0];
            size_known_reg <= head_size == `NK_HEAD_SIZE_0 || head_size == `NK_HEAD_SIZE_1 ||
                head_size == `NK_HEAD_SIZE_2 || head_size == `NK_HEAD_SIZE_3 || head_size == `NK_HEAD_SIZE_4 ||
                head_size == `NK_HEAD_SIZE_5;
            chunks_reg <= identify ? 4'd2 : head_size[8:5] + {3'd0, head_size[4]};
            half_reg <= head_size[4];
        end
        if (rst) begin
            busy_reg <= 1'b0;
            done_reg <= 1'b0;
        end
    end

endmodule

`resetall
