// SPDX-License-Identifier: Apache-2.0
// Reads and checks what a list or a job needs before its walk: header, descriptor, limits, segments, state, q; in the
// contract's order. Its output is a job that can walk, or the fault that ends it. Does not read K or V.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module job_prepare (
    input wire clk,
    input wire rst,

    input wire [63:0] kv,
    input wire [63:0] ctl,
    input wire [63:0] out,

    // pulse: read the header. `jobs` is valid from `list_done` on
    input wire list_start,
    // pulse: prepare this job
    input wire job_start,
    input wire [12:0] job_index,
    // every earlier job has been written
    input wire alone,
    // pulse: list or job ended with or without a fault
    output wire done,
    output wire faulty,
    // {address 64, detail 32, position 32, kind 32, page 32, segment 32, code 32}
    output wire [255:0] fault,
    output wire [12:0] jobs,

    // the job's descriptors are sound: K can be read while its state and q are loaded; until the next start
    output wire walkable,
    // the job; valid with `walkable` and until the next start
    output wire [2047:0] job,
    output wire [3:0] chunks,
    output wire half_last,
    // its bins fill the whole store
    output wire big,

    // reader on ctl
    output wire [57:0] cmd_word,
    output wire [24:0] cmd_count,
    output wire cmd_valid,
    input wire cmd_ready,
    input wire [511:0] s_data,
    input wire s_error,
    input wire s_valid,
    output wire s_ready,

    // the first segments of a job, so that the walk need not read them again
    output wire [511:0] near_data,
    output wire near_valid,
    input wire near_ready,

    // tables of rows, see the loaders
    output wire limit_row_valid,
    output wire [5:0] limit_row,
    output wire [21:0] limit_low,
    output wire [21:0] limit_high,
    input wire limit_row_ready,
    output wire q_valid,
    output wire [5:0] q_row,
    output wire [2:0] q_chunk,
    output wire q_half,
    output wire [383:0] q_data,
    output wire q_shift_valid,
    output wire [9:0] q_shift,
    output wire o_valid,
    output wire [5:0] o_row,
    output wire [3:0] o_word,
    output wire o_half,
    output wire [1:0] o_bin,
    output wire [399:0] o_data,
    input wire o_ready,
    output wire l_valid,
    output wire [5:0] l_row,
    output wire [149:0] l_data,
    output wire l_seen,
    output wire [19:0] l_top,
    input wire l_ready
);

    localparam [3:0] IDLE = 4'd0;
    localparam [3:0] HEADER = 4'd1;
    localparam [3:0] HEADER_CHECK = 4'd2;
    localparam [3:0] JOB = 4'd3;
    localparam [3:0] JOB_CHECK = 4'd4;
    localparam [3:0] WAIT = 4'd5;
    localparam [3:0] LIMITS = 4'd6;
    localparam [3:0] SEGMENTS = 4'd7;
    localparam [3:0] NEW_ROWS = 4'd8;
    localparam [3:0] STATE = 4'd9;
    localparam [3:0] QUERY = 4'd10;
    localparam [3:0] END = 4'd11;

    // offset of the field
    localparam [31:0] NEW_FIRST = `NK_JOB_NEW_FIRST_LSB / 8;

    localparam [2:0] ISSUE_NONE = 3'd0;
    localparam [2:0] ISSUE_LIMITS = 3'd1;
    localparam [2:0] ISSUE_SEGMENTS = 3'd2;
    localparam [2:0] ISSUE_STATE = 3'd3;
    localparam [2:0] ISSUE_QUERY = 3'd4;
    localparam [2:0] ISSUE_NEXT = 3'd5;
    localparam [2:0] ISSUE_HEADER = 3'd6;
    // segments that are handed over as they are
    localparam [24:0] NEAR = 25'd16;

    reg [3:0] state_reg;
    // first cycle of a state
    reg enter_reg;
    reg [1023:0] header_reg;
    reg [2047:0] job_reg;
    // commands of a job, asked for ahead of their turn: limits, segments, state, q, the next job's descriptor
    reg [2:0] issue_reg;
    reg [57:0] cmd_word_next;
    reg [24:0] cmd_count_next;
    // words taken of the structure at hand; word address of the next
    reg [24:0] taken_reg;
    reg [57:0] next_word_reg;
    reg error_reg;
    reg [57:0] error_word_reg;
    reg faulty_reg;
    reg [255:0] fault_reg;
    reg checking_reg;
    reg big_before_reg;
    reg done_reg;
    reg walkable_reg;
    reg [12:0] index_reg;

    wire [6:0] rows = job_reg[`NK_JOB_ROWS_LSB+:7];
    wire [6:0] query_tokens = job_reg[`NK_JOB_QUERY_TOKENS_LSB+:7];
    wire [17:0] segments = job_reg[`NK_JOB_SEGMENTS_LSB+:18];
    wire [6:0] new_tokens = job_reg[`NK_JOB_NEW_TOKENS_LSB+:7];
    wire [63:0] state_in = job_reg[`NK_JOB_STATE_IN_LSB+:64];
    wire identify = job_reg[`NK_JOB_OPCODE_LSB+:32] == `NK_OPCODE_IDENTIFY;
    wire [6:0] group;
    wire is_big = chunks[3] && rows > 7'd32;

    wire take = s_valid && s_ready;
    wire [63:0] error_address = {error_reg ? error_word_reg : next_word_reg, 6'd0};
    wire [31:0] na = `NK_NOT_APPLICABLE;
    wire [255:0] read_fault = {error_address, `NK_MASTER_CTL, na, na, na, na, `NK_STATUS_AXI_READ};

    // words of q, of a state
    wire [24:0] row_chunks = {14'd0, {4'd0, rows} * {7'd0, chunks}};
    wire [24:0] q_words = {row_chunks[23:0], 1'b0};
    wire [24:0] state_words = {row_chunks[21:0], 3'd0} + {row_chunks[22:0], 2'd0} + {18'd0, (rows + 7'd1) >> 1};
    wire [24:0] limit_words = {18'd0, (query_tokens + 7'd7) >> 3};

    wire header_done;
    wire header_bad;
    wire [31:0] header_detail;
    wire job_done;
    wire job_bad;
    wire [31:0] job_detail;
    wire limits_done;
    wire limits_bad;
    wire [31:0] limits_position;
    wire [31:0] limits_detail;
    wire limits_ready;
    wire segment_done;
    wire segment_bad;
    wire [31:0] segment_detail;
    wire state_done;
    wire state_bad;
    wire [31:0] state_position;
    wire state_ready;
    wire q_done;
    wire q_bad;
    wire [31:0] q_position;
    wire q_ready;

    wire segment_last = taken_reg == {7'd0, segments};
    wire segment_start = state_reg == SEGMENTS && !enter_reg && !segment_last && s_valid && !s_error && !checking_reg &&
        near_ready;
    wire new_start = state_reg == NEW_ROWS && enter_reg;
    wire [511:0] segment = state_reg == NEW_ROWS ?
        {448'd0, job_reg[`NK_JOB_NEW_FIRST_LSB+:32], 25'd0, new_tokens} : s_data;

    header_check check_header (
        .clk(clk),
        .rst(rst),
        .start(state_reg == HEADER_CHECK && enter_reg),
        .header(header_reg),
        .kv(kv),
        .ctl(ctl),
        .out(out),
        .done(header_done),
        .bad(header_bad),
        .detail(header_detail)
    );

    job_check check_job (
        .clk(clk),
        .rst(rst),
        .start(state_reg == JOB_CHECK && enter_reg),
        .job(job_reg),
        .ctl_window(header_reg[`NK_LIST_CTL_WINDOW_LSB+:64]),
        .ctl_window_nbytes(header_reg[`NK_LIST_CTL_WINDOW_NBYTES_LSB+:64]),
        .out_window(header_reg[`NK_LIST_OUT_WINDOW_LSB+:64]),
        .out_window_nbytes(header_reg[`NK_LIST_OUT_WINDOW_NBYTES_LSB+:64]),
        .done(job_done),
        .bad(job_bad),
        .detail(job_detail),
        .chunks(chunks),
        .half_last(half_last),
        .group(group)
    );

    segment_check check_segment (
        .clk(clk),
        .restart(state_reg == SEGMENTS && enter_reg),
        .chunks(chunks),
        .kv_window(header_reg[`NK_LIST_KV_WINDOW_LSB+:64]),
        .kv_window_nbytes(header_reg[`NK_LIST_KV_WINDOW_NBYTES_LSB+:64]),
        .ctl_window(header_reg[`NK_LIST_CTL_WINDOW_LSB+:64]),
        .ctl_window_nbytes(header_reg[`NK_LIST_CTL_WINDOW_NBYTES_LSB+:64]),
        .start(segment_start || new_start),
        .is_new(state_reg == NEW_ROWS),
        .segment(segment),
        .done(segment_done),
        .bad(segment_bad),
        .detail(segment_detail)
    );

    limit_load load_limits (
        .clk(clk),
        .rst(rst),
        .start(state_reg == LIMITS && enter_reg),
        .query_tokens(query_tokens),
        .group(group),
        .window(job_reg[`NK_JOB_WINDOW_LSB+:21]),
        .s_data(s_data),
        .s_valid(s_valid && state_reg == LIMITS),
        .s_ready(limits_ready),
        .row(limit_row),
        .low(limit_low),
        .high(limit_high),
        .row_valid(limit_row_valid),
        .row_ready(limit_row_ready),
        .done(limits_done),
        .bad(limits_bad),
        .position(limits_position),
        .detail(limits_detail)
    );

    state_load load_state (
        .clk(clk),
        .rst(rst),
        .start(state_reg == STATE && enter_reg),
        .rows(rows),
        .chunks(chunks),
        .half_last(half_last),
        .s_data(s_data),
        .s_valid(s_valid && state_reg == STATE),
        .s_ready(state_ready),
        .o_row(o_row),
        .o_word(o_word),
        .o_half(o_half),
        .o_bin(o_bin),
        .o_data(o_data),
        .o_valid(o_valid),
        .o_ready(o_ready),
        .l_row(l_row),
        .l_data(l_data),
        .l_seen(l_seen),
        .l_top(l_top),
        .l_valid(l_valid),
        .l_ready(l_ready),
        .done(state_done),
        .bad(state_bad),
        .position(state_position)
    );

    query_load load_q (
        .clk(clk),
        .rst(rst),
        .start(state_reg == QUERY && enter_reg),
        .rows(rows),
        .chunks(chunks),
        .half_last(half_last),
        .scale_exponent(job_reg[`NK_JOB_SCALE_EXPONENT_LSB+:8]),
        .s_data(s_data),
        .s_valid(s_valid && state_reg == QUERY),
        .s_ready(q_ready),
        .q_row(q_row),
        .q_chunk(q_chunk),
        .q_half(q_half),
        .q_data(q_data),
        .q_valid(q_valid),
        .shift(q_shift),
        .shift_valid(q_shift_valid),
        .done(q_done),
        .bad(q_bad),
        .position(q_position)
    );

    assign s_ready = state_reg == HEADER && taken_reg != 25'd2 || state_reg == JOB && taken_reg != 25'd4 || state_reg == LIMITS && limits_ready ||
        state_reg == SEGMENTS && checking_reg && segment_done || state_reg == STATE && state_ready ||
        state_reg == QUERY && q_ready;
    assign cmd_word = cmd_word_next;
    assign cmd_count = cmd_count_next;
    assign cmd_valid = issue_reg != ISSUE_NONE;
    assign near_data = s_data;
    assign near_valid = state_reg == SEGMENTS && segment_done && !segment_bad && taken_reg < NEAR;
    assign done = done_reg;
    assign walkable = walkable_reg;
    assign faulty = faulty_reg;
    assign fault = fault_reg;
    assign jobs = header_reg[`NK_LIST_JOBS_LSB+:13];
    assign job = job_reg;
    assign big = is_big;

    wire [12:0] next_index = index_reg + 13'd1;
    wire [57:0] next_job_word = ctl[63:6] + {43'd0, next_index, 2'd0} + 58'd2;

    always @* begin
        cmd_word_next = ctl[63:6];
        // header and first job
        cmd_count_next = 25'd6;
        case (issue_reg)
            ISSUE_LIMITS: begin
                cmd_word_next = job_reg[`NK_JOB_LIMITS_ADDR_LSB+6+:58];
                cmd_count_next = limit_words;
            end
            ISSUE_SEGMENTS: begin
                cmd_word_next = job_reg[`NK_JOB_SEGMENTS_ADDR_LSB+6+:58];
                cmd_count_next = {7'd0, segments};
            end
            ISSUE_STATE: begin
                cmd_word_next = state_in[63:6];
                cmd_count_next = state_in == 64'd0 ? 25'd0 : state_words;
            end
            ISSUE_QUERY: begin
                cmd_word_next = job_reg[`NK_JOB_Q_ADDR_LSB+6+:58];
                cmd_count_next = q_words;
            end
            ISSUE_NEXT: begin
                cmd_word_next = next_job_word;
                cmd_count_next = next_index == jobs ? 25'd0 : 25'd4;
            end
            default: ;
        endcase
    end

    always @(posedge clk) begin
        enter_reg <= 1'b0;
        done_reg <= 1'b0;
        if (take) begin
            taken_reg <= taken_reg + 25'd1;
            next_word_reg <= next_word_reg + 58'd1;
            if (s_error && !error_reg) begin
                error_reg <= 1'b1;
                error_word_reg <= next_word_reg;
            end
        end
        if (cmd_valid && cmd_ready)
            issue_reg <= issue_reg == ISSUE_HEADER || issue_reg == ISSUE_NEXT ? ISSUE_NONE : issue_reg + 3'd1;

        case (state_reg)
            IDLE:
            if (list_start || job_start) begin
                state_reg <= list_start ? HEADER : JOB;
                if (list_start) issue_reg <= ISSUE_HEADER;
                index_reg <= job_index;
                faulty_reg <= 1'b0;
                walkable_reg <= 1'b0;
                big_before_reg <= job_start && job_index != 13'd0 && is_big;
                next_word_reg <= list_start ? ctl[63:6] : ctl[63:6] + {43'd0, job_index, 2'd0} + 58'd2;
                taken_reg <= 25'd0;
                error_reg <= 1'b0;
            end
            HEADER: begin
                if (take) header_reg <= {s_data, header_reg[1023:512]};
                if (taken_reg == 25'd2) begin
                    state_reg <= error_reg ? END : HEADER_CHECK;
                    enter_reg <= 1'b1;
                    faulty_reg <= error_reg;
                    fault_reg <= read_fault;
                end
            end
            HEADER_CHECK:
            if (header_done) begin
                state_reg <= END;
                faulty_reg <= header_bad;
                fault_reg <= {64'd0, header_detail, na, na, na, na, `NK_STATUS_BAD_LIST};
            end
            JOB: begin
                if (take) job_reg <= {s_data, job_reg[2047:512]};
                if (taken_reg == 25'd4) begin
                    state_reg <= error_reg ? END : JOB_CHECK;
                    enter_reg <= 1'b1;
                    faulty_reg <= error_reg;
                    fault_reg <= read_fault;
                end
            end
            JOB_CHECK:
            if (job_done) begin
                state_reg <= job_bad || identify ? END : WAIT;
                faulty_reg <= job_bad;
                fault_reg <= {64'd0, job_detail, na, na, na, na, `NK_STATUS_BAD_JOB};
                if (!job_bad && identify) issue_reg <= ISSUE_NEXT;
                walkable_reg <= !job_bad && identify;
            end
            // bins and T of this parity must be free; earlier states must be in memory
            WAIT:
            if (alone || !(is_big || big_before_reg || state_in != 64'd0)) begin
                state_reg <= LIMITS;
                enter_reg <= 1'b1;
                issue_reg <= ISSUE_LIMITS;
            end
            LIMITS:
            if (limits_done) begin
                state_reg <= error_reg || limits_bad ? END : SEGMENTS;
                enter_reg <= 1'b1;
                faulty_reg <= error_reg || limits_bad;
                fault_reg <= error_reg ? read_fault :
                    {64'd0, limits_detail, limits_position, na, na, na, `NK_STATUS_BAD_LIMIT};
            end
            SEGMENTS: begin
                if (segment_start) checking_reg <= 1'b1;
                if (segment_done) checking_reg <= 1'b0;
                if (!enter_reg && segment_last) begin
                    state_reg <= NEW_ROWS;
                    enter_reg <= 1'b1;
                end else if (!enter_reg && !checking_reg && s_valid && s_error) begin
                    state_reg <= END;
                    faulty_reg <= 1'b1;
                    fault_reg <= read_fault;
                end else if (checking_reg && segment_done && segment_bad) begin
                    state_reg <= END;
                    faulty_reg <= 1'b1;
                    fault_reg <= {64'd0, segment_detail, na, na, na, {7'd0, taken_reg}, `NK_STATUS_BAD_SEGMENT};
                end
            end
            NEW_ROWS:
            if (new_tokens == 7'd0 || segment_done) begin
                state_reg <= new_tokens != 7'd0 && segment_bad ? END : state_in != 64'd0 ? STATE : QUERY;
                enter_reg <= 1'b1;
                faulty_reg <= new_tokens != 7'd0 && segment_bad;
                walkable_reg <= !(new_tokens != 7'd0 && segment_bad);
                fault_reg <= {64'd0, NEW_FIRST, na, na, na, na, `NK_STATUS_BAD_JOB};
            end
            STATE:
            if (state_done) begin
                state_reg <= error_reg || state_bad ? END : QUERY;
                enter_reg <= 1'b1;
                faulty_reg <= error_reg || state_bad;
                fault_reg <= error_reg ? read_fault :
                    {64'd0, na, state_position, `NK_KIND_STATE, na, na, `NK_STATUS_BAD_STATE};
            end
            QUERY:
            if (q_done) begin
                state_reg <= END;
                faulty_reg <= error_reg || q_bad;
                fault_reg <= error_reg ? read_fault :
                    {64'd0, na, q_position, `NK_KIND_Q, na, na, `NK_STATUS_NONFINITE_Q};
            end
            END:
            if (issue_reg == ISSUE_NONE || faulty_reg) begin
                state_reg <= IDLE;
                done_reg <= 1'b1;
            end
            default: state_reg <= IDLE;
        endcase

        // each structure counts from its own first word; no word of it is taken in the first cycle
        if (enter_reg && (state_reg == LIMITS || state_reg == SEGMENTS || state_reg == STATE || state_reg == QUERY)) begin
            taken_reg <= 25'd0;
            error_reg <= 1'b0;
            case (state_reg)
                LIMITS: next_word_reg <= job_reg[`NK_JOB_LIMITS_ADDR_LSB+6+:58];
                SEGMENTS: next_word_reg <= job_reg[`NK_JOB_SEGMENTS_ADDR_LSB+6+:58];
                STATE: next_word_reg <= state_in[63:6];
                default: next_word_reg <= job_reg[`NK_JOB_Q_ADDR_LSB+6+:58];
            endcase
        end
        if (rst) begin
            state_reg <= IDLE;
            enter_reg <= 1'b0;
            issue_reg <= ISSUE_NONE;
            checking_reg <= 1'b0;
            done_reg <= 1'b0;
            walkable_reg <= 1'b0;
        end
    end

endmodule

`resetall
