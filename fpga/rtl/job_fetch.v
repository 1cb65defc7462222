// SPDX-License-Identifier: Apache-2.0
// Asks for the descriptors and rows of a job ahead of their turn, in the order in which job_prepare takes them. Knows
// the address of each word that is taken, and of the first that was answered with an error. Does not see the data.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module job_fetch (
    input wire clk,
    input wire rst,

    // word address of the list; jobs in it; the job at hand, its number, words per row
    input wire [57:0] list_word,
    input wire [12:0] jobs,
    input wire [12:0] index,
    input wire [2047:0] job,
    input wire [3:0] chunks,

    // pulses: ask for the header with the first job; for what a job points to, then for the next job; for the next job
    input wire ask_header,
    input wire ask_job,
    input wire ask_next,
    output wire asking,

    // pulses: the next word is the first of the header, the job, its limits, segments, state, q
    input wire [5:0] begins,
    // a word is taken, with an error reply
    input wire take,
    input wire take_error,
    // words taken of the structure at hand; one of them came with an error; the fault that this is
    output wire [24:0] taken,
    output wire error,
    output wire [255:0] fault,

    // reader on ctl
    output wire [57:0] cmd_word,
    output wire [24:0] cmd_count,
    output wire cmd_valid,
    input wire cmd_ready
);

    localparam [2:0] NONE = 3'd0;
    localparam [2:0] LIMITS = 3'd1;
    localparam [2:0] SEGMENTS = 3'd2;
    localparam [2:0] STATE = 3'd3;
    localparam [2:0] QUERY = 3'd4;
    localparam [2:0] NEXT = 3'd5;
    localparam [2:0] HEADER = 3'd6;

    reg [2:0] issue_reg;
    reg [57:0] cmd_word_next;
    reg [24:0] cmd_count_next;
    reg [57:0] first_word;
    reg [57:0] next_word_reg;
    reg [24:0] taken_reg;
    reg error_reg;
    reg [57:0] error_word_reg;

    wire [6:0] rows = job[`NK_JOB_ROWS_LSB+:7];
    wire [6:0] query_tokens = job[`NK_JOB_QUERY_TOKENS_LSB+:7];
    wire [57:0] limits_word = job[`NK_JOB_LIMITS_ADDR_LSB+6+:58];
    wire [57:0] segments_word = job[`NK_JOB_SEGMENTS_ADDR_LSB+6+:58];
    wire [57:0] state_word = job[`NK_JOB_STATE_IN_LSB+6+:58];
    wire [57:0] q_word = job[`NK_JOB_Q_ADDR_LSB+6+:58];
    wire [24:0] row_chunks = {14'd0, {4'd0, rows} * {7'd0, chunks}};
    wire [24:0] state_words = {row_chunks[21:0], 3'd0} + {row_chunks[22:0], 2'd0} + {18'd0, (rows + 7'd1) >> 1};
    wire [12:0] next_index = index + 13'd1;
    wire [57:0] error_word = error_reg ? error_word_reg : next_word_reg;

    assign asking = issue_reg != NONE;
    assign taken = taken_reg;
    assign error = error_reg;
    assign fault = {error_word, 6'd0, `NK_MASTER_CTL, {4{`NK_NOT_APPLICABLE}}, `NK_STATUS_AXI_READ};
    assign cmd_word = cmd_word_next;
    assign cmd_count = cmd_count_next;
    assign cmd_valid = asking;

    always @* begin
        // header and first job
        cmd_word_next = list_word;
        cmd_count_next = 25'd6;
        case (issue_reg)
            LIMITS: begin
                cmd_word_next = limits_word;
                cmd_count_next = {18'd0, (query_tokens + 7'd7) >> 3};
            end
            SEGMENTS: begin
                cmd_word_next = segments_word;
                cmd_count_next = {7'd0, job[`NK_JOB_SEGMENTS_LSB+:18]};
            end
            STATE: begin
                cmd_word_next = state_word;
                cmd_count_next = state_word == 58'd0 ? 25'd0 : state_words;
            end
            QUERY: begin
                cmd_word_next = q_word;
                cmd_count_next = {row_chunks[23:0], 1'b0};
            end
            NEXT: begin
                cmd_word_next = list_word + {43'd0, next_index, 2'd0} + 58'd2;
                cmd_count_next = next_index == jobs ? 25'd0 : 25'd4;
            end
            default: ;
        endcase
        first_word = list_word;
        if (begins[1]) first_word = list_word + {43'd0, index, 2'd0} + 58'd2;
        if (begins[2]) first_word = limits_word;
        if (begins[3]) first_word = segments_word;
        if (begins[4]) first_word = state_word;
        if (begins[5]) first_word = q_word;
    end

    always @(posedge clk) begin
        if (cmd_valid && cmd_ready) issue_reg <= issue_reg == HEADER || issue_reg == NEXT ? NONE : issue_reg + 3'd1;
        if (ask_header) issue_reg <= HEADER;
        if (ask_job) issue_reg <= LIMITS;
        if (ask_next) issue_reg <= NEXT;

        if (take) begin
            taken_reg <= taken_reg + 25'd1;
            next_word_reg <= next_word_reg + 58'd1;
            if (take_error && !error_reg) begin
                error_reg <= 1'b1;
                error_word_reg <= next_word_reg;
            end
        end
        if (begins != 6'd0) begin
            taken_reg <= 25'd0;
            next_word_reg <= first_word;
            error_reg <= 1'b0;
        end
        if (rst) issue_reg <= NONE;
    end

endmodule

`resetall
