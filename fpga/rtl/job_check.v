// SPDX-License-Identifier: Apache-2.0
// Checks the fields of a job, in the order of docs/kernel-contract.md; stops at the first bad one.
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

    // steps 0 to 11: u32 fields; 12 to 21: addresses; 22 on: reserved words
    localparam [5:0] STEP_ADDRESS = 6'd12;
    localparam [5:0] STEP_RESERVED = 6'd22;
    localparam [5:0] STEP_END = 6'd54;

    reg busy_reg;
    // an address is selected in one cycle and judged in the next
    reg phase_reg;
    reg [5:0] step_reg;
    reg [3:0] chunks_reg;
    reg half_reg;
    reg size_known_reg;
    // rows / query_tokens by repeated subtraction
    reg [6:0] group_reg;
    reg [6:0] rest_reg;
    reg dividing_reg;
    reg bad_reg;
    reg [31:0] detail_reg;
    reg done_reg;

    reg [63:0] address_reg;
    reg [32:0] nbytes_reg;
    reg in_out_reg;
    reg must_zero_reg;
    reg may_zero_reg;

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
    wire [31:0] word = job[{step_reg, 5'd0}+:32];

    // fields of eight bytes start at byte 48
    wire [3:0] index = step_reg[3:0] - STEP_ADDRESS[3:0];
    wire [63:0] address = job[{1'b0, index, 6'd0}+`NK_JOB_Q_ADDR_LSB+:64];
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

    reg bad_word;

    always @* begin
        bad_word = 1'b0;
        if (step_reg >= STEP_RESERVED) bad_word = job[{step_reg + 6'd10, 5'd0}+:32] != 32'd0;
        else if (step_reg == 6'd0) bad_word = !identify && opcode != `NK_OPCODE_ATTEND;
        else if (identify) bad_word = word != 32'd0;
        else begin
            case (step_reg)
                6'd1: bad_word = (flags & ~`NK_JOB_FLAG_RAW) != 32'd0;
                6'd2: bad_word = !size_known_reg;
                6'd3: bad_word = word != `NK_ELEMENT_FORMAT_FP16;
                6'd4: bad_word = rows == 32'd0 || rows > `NK_ROWS_MAX;
                6'd5:
                bad_word = query_tokens == 32'd0 || query_tokens > `NK_QUERY_TOKENS_MAX || rest_reg != 7'd0;
                6'd6: bad_word = mantissa < 32'h00800000 || mantissa > 32'h00FFFFFF;
                6'd7: bad_word = $signed(exponent) < -32'sd126 || $signed(exponent) > 32'sd127;
                6'd8: bad_word = window >= `NK_POSITIONS_MAX;
                6'd9: bad_word = segments > `NK_SEGMENTS_MAX;
                6'd10: bad_word = new_tokens > `NK_NEW_TOKENS_MAX;
                6'd11: bad_word = new_tokens == 32'd0 && word != 32'd0;
                default: bad_word = 1'b0;
            endcase
        end
    end

    wire zero = address_reg == 64'd0;
    wire bad_address = zero ? !(must_zero_reg || may_zero_reg) :
        must_zero_reg || address_reg[5:0] != 6'd0 || !holds;
    wire is_address = step_reg >= STEP_ADDRESS && step_reg < STEP_RESERVED;
    wire judged = busy_reg && !dividing_reg && (phase_reg || !is_address);
    wire refuse = is_address ? bad_address : bad_word;
    // the usual case in one step: all reserved words are zero
    wire all_zero = step_reg == STEP_RESERVED && job[2047:1024] == 1024'd0;
    wire finish = judged && (refuse || all_zero || step_reg == STEP_END - 6'd1);

    assign done = done_reg;
    assign bad = bad_reg;
    assign detail = detail_reg;
    assign chunks = chunks_reg;
    assign half_last = half_reg;
    assign group = group_reg;

    always @(posedge clk) begin
        done_reg <= finish;
        if (busy_reg && is_address && !phase_reg) begin
            phase_reg <= 1'b1;
            address_reg <= address;
            in_out_reg <= index == 4'd5 || index == 4'd6 || index > 4'd7;
            may_zero_reg <= !identify && index > 4'd6;
            case (index)
                4'd0, 4'd1: must_zero_reg <= identify;
                4'd2: must_zero_reg <= segments == 32'd0;
                4'd3, 4'd4: must_zero_reg <= new_tokens == 32'd0;
                4'd5: must_zero_reg <= new_tokens == 32'd0 || job[`NK_JOB_TAIL_K_ADDR_LSB+:64] == 64'd0;
                4'd6: must_zero_reg <= new_tokens == 32'd0 || job[`NK_JOB_TAIL_K_ADDR_LSB+:64] == 64'd0;
                default: must_zero_reg <= identify && index != 4'd9;
            endcase
            case (index)
                4'd0: nbytes_reg <= q_nbytes;
                4'd1: nbytes_reg <= {23'd0, query_tokens[6:0], 3'd0};
                4'd2: nbytes_reg <= {9'd0, segments[17:0], 6'd0};
                4'd3, 4'd4, 4'd5, 4'd6: nbytes_reg <= new_nbytes;
                4'd7, 4'd8: nbytes_reg <= state_nbytes;
                default: nbytes_reg <= identify ? 33'd64 : flags[0] ? state_nbytes : output_nbytes;
            endcase
        end
        if (judged) begin
            step_reg <= step_reg + 6'd1;
            phase_reg <= 1'b0;
            bad_reg <= refuse;
            detail_reg <= step_reg < STEP_ADDRESS ? {24'd0, step_reg, 2'd0} :
                is_address ? {25'd0, index, 3'd0} + `NK_JOB_Q_ADDR_LSB / 8 : {24'd0, step_reg + 6'd10, 2'd0};
        end
        if (judged && step_reg == 6'd4) dividing_reg <= !identify && query_tokens[6:0] != 7'd0;
        if (dividing_reg) begin
            if (rest_reg >= query_tokens[6:0]) begin
                rest_reg <= rest_reg - query_tokens[6:0];
                group_reg <= group_reg + 7'd1;
            end else dividing_reg <= 1'b0;
        end
        if (finish) busy_reg <= 1'b0;
        if (start) begin
            busy_reg <= 1'b1;
            phase_reg <= 1'b0;
            step_reg <= 6'd0;
            dividing_reg <= 1'b0;
            rest_reg <= rows[6:0];
            group_reg <= 7'd0;
            size_known_reg <= head_size == `NK_HEAD_SIZE_0 || head_size == `NK_HEAD_SIZE_1 ||
                head_size == `NK_HEAD_SIZE_2 || head_size == `NK_HEAD_SIZE_3 || head_size == `NK_HEAD_SIZE_4 ||
                head_size == `NK_HEAD_SIZE_5;
            chunks_reg <= identify ? 4'd2 : head_size[8:5] + {3'd0, head_size[4]};
            half_reg <= head_size[4];
        end
        if (rst) begin
            busy_reg <= 1'b0;
            done_reg <= 1'b0;
            dividing_reg <= 1'b0;
        end
    end

endmodule

`resetall
