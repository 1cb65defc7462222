// SPDX-License-Identifier: Apache-2.0
// Checks what a list or a job needs before its walk, in the contract's order: header, descriptor, limits, segments,
// state, q. Its output is a job that can walk, or the fault that ends it. Does not read K or V.
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

    // pulse: read the header. `jobs` is valid from `done` on
    input wire list_start,
    // pulse: prepare this job; `job_index` stays until `done`
    input wire job_start,
    input wire [12:0] job_index,
    // tables and bins of its parity are free; every earlier job has been written
    input wire free,
    input wire alone,
    // pulse: the job takes the tables
    output wire enters,
    // pulse: list or job ended with or without a fault
    output wire done,
    output wire faulty,
    // {address 64, detail 32, position 32, kind 32, page 32, segment 32, code 32}
    output wire [255:0] fault,
    output wire [12:0] jobs,

    // until the next start. The job can walk: what `near_data` hands over is sound, K of it can be read while the rest is
    // checked and loaded; all its descriptors are sound
    output wire walkable,
    output wire sound,
    // the job; valid with `walkable` and until the next start
    output wire [2047:0] job,
    output wire [3:0] chunks,
    output wire half_last,
    output wire [6:0] group,
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

    // the first segments of a job, so that the walk need not read them again; pulse: one more of them is sound
    output wire [511:0] near_data,
    output wire near_valid,
    input wire near_ready,
    output wire near_sound,

    // see job_load, which takes words of the same reader
    output wire [2:0] load_start,
    input wire load_ready,
    input wire load_done,
    input wire load_bad,
    input wire [255:0] load_fault
);

    localparam [3:0] IDLE = 4'd0;
    localparam [3:0] HEADER = 4'd1;
    localparam [3:0] JOB = 4'd2;
    localparam [3:0] JOB_CHECK = 4'd3;
    localparam [3:0] WAIT = 4'd4;
    localparam [3:0] LIMITS = 4'd5;
    localparam [3:0] SEGMENTS = 4'd6;
    localparam [3:0] STATE = 4'd7;
    localparam [3:0] QUERY = 4'd8;
    localparam [3:0] END = 4'd9;

    localparam [31:0] NA = `NK_NOT_APPLICABLE;

    reg [3:0] state_reg;
    // first cycle of a state
    reg enter_reg;
    reg [2047:0] job_reg;
    reg faulty_reg;
    reg [255:0] fault_reg;
    reg big_before_reg;
    reg done_reg;
    reg walkable_reg;
    reg sound_reg;

    wire has_state = job_reg[`NK_JOB_STATE_IN_LSB+:64] != 64'd0;
    wire identify = job_reg[`NK_JOB_OPCODE_LSB+:32] == `NK_OPCODE_IDENTIFY;
    wire is_big = chunks[3] && job_reg[`NK_JOB_ROWS_LSB+:7] > 7'd32;
    wire must_wait = is_big || big_before_reg || has_state;

    wire take = s_valid && s_ready;
    wire begin_list = state_reg == IDLE && list_start;
    wire begin_job = state_reg == IDLE && !list_start && job_start;
    wire [24:0] taken;
    wire asking;
    wire read_error;
    wire [255:0] read_fault;
    wire header_ready;
    wire header_done;
    wire header_faulty;
    wire [255:0] header_fault;
    wire [1023:0] header;
    wire job_done;
    wire job_bad;
    wire [31:0] job_detail;
    wire segments_ready;
    wire segments_done;
    wire segments_faulty;
    wire [255:0] segments_fault;
    wire accepted = state_reg == JOB_CHECK && job_done && !job_bad;

    job_fetch fetch (
        .clk(clk),
        .rst(rst),
        .list_word(ctl[63:6]),
        .jobs(jobs),
        .index(job_index),
        .job(job_reg),
        .chunks(chunks),
        .ask_header(begin_list),
        .ask_job(has_state ? enters && !identify : accepted && !identify),
        .ask_next(accepted && identify),
        .asking(asking),
        .begins({load_start[2], load_start[1], state_reg == SEGMENTS && enter_reg, load_start[0], begin_job, begin_list}),
        .take(take),
        .take_error(s_error),
        .taken(taken),
        .error(read_error),
        .fault(read_fault),
        .cmd_word(cmd_word),
        .cmd_count(cmd_count),
        .cmd_valid(cmd_valid),
        .cmd_ready(cmd_ready)
    );

    header_load load_header (
        .clk(clk),
        .rst(rst),
        .start(begin_list),
        .kv(kv),
        .ctl(ctl),
        .out(out),
        .s_data(s_data),
        .s_valid(s_valid),
        .s_ready(header_ready),
        .read_error(read_error),
        .read_fault(read_fault),
        .done(header_done),
        .faulty(header_faulty),
        .fault(header_fault),
        .header(header)
    );

    job_check check_job (
        .clk(clk),
        .rst(rst),
        .start(state_reg == JOB_CHECK && enter_reg),
        .job(job_reg),
        .ctl_window(header[`NK_LIST_CTL_WINDOW_LSB+:64]),
        .ctl_window_nbytes(header[`NK_LIST_CTL_WINDOW_NBYTES_LSB+:64]),
        .out_window(header[`NK_LIST_OUT_WINDOW_LSB+:64]),
        .out_window_nbytes(header[`NK_LIST_OUT_WINDOW_NBYTES_LSB+:64]),
        .done(job_done),
        .bad(job_bad),
        .detail(job_detail),
        .chunks(chunks),
        .half_last(half_last),
        .group(group)
    );

    segment_load load_segments (
        .clk(clk),
        .rst(rst),
        .start(state_reg == SEGMENTS && enter_reg),
        .job(job_reg),
        .chunks(chunks),
        .kv_window(header[`NK_LIST_KV_WINDOW_LSB+:64]),
        .kv_window_nbytes(header[`NK_LIST_KV_WINDOW_NBYTES_LSB+:64]),
        .ctl_window(header[`NK_LIST_CTL_WINDOW_LSB+:64]),
        .ctl_window_nbytes(header[`NK_LIST_CTL_WINDOW_NBYTES_LSB+:64]),
        .s_data(s_data),
        .s_error(s_error),
        .s_valid(s_valid),
        .s_ready(segments_ready),
        .read_fault(read_fault),
        .near_valid(near_valid),
        .near_ready(near_ready),
        .near_sound(near_sound),
        .done(segments_done),
        .faulty(segments_faulty),
        .fault(segments_fault)
    );

    assign s_ready = header_ready || state_reg == JOB && taken != 25'd4 || load_ready || segments_ready;
    assign near_data = s_data;
    assign load_start = {3{enter_reg}} & {state_reg == QUERY, state_reg == STATE, state_reg == LIMITS};
    assign done = done_reg;
    assign enters = state_reg == WAIT && free && (alone || !must_wait);
    assign walkable = walkable_reg;
    assign sound = sound_reg;
    assign faulty = faulty_reg;
    assign fault = fault_reg;
    assign jobs = header[`NK_LIST_JOBS_LSB+:13];
    assign job = job_reg;
    assign big = is_big;

    always @(posedge clk) begin
        enter_reg <= 1'b0;
        done_reg <= 1'b0;
        if (begin_list || begin_job) begin
            faulty_reg <= 1'b0;
            walkable_reg <= 1'b0;
            sound_reg <= 1'b0;
            big_before_reg <= begin_job && job_index != 13'd0 && is_big;
        end
        case (state_reg)
            IDLE:
            if (begin_list) state_reg <= HEADER;
            else if (begin_job) state_reg <= JOB;
            HEADER:
            if (header_done) begin
                state_reg <= END;
                faulty_reg <= header_faulty;
                fault_reg <= header_fault;
            end
            JOB: begin
                if (take) job_reg <= {s_data, job_reg[2047:512]};
                if (taken == 25'd4) begin
                    state_reg <= read_error ? END : JOB_CHECK;
                    enter_reg <= 1'b1;
                    faulty_reg <= read_error;
                    fault_reg <= read_fault;
                end
            end
            JOB_CHECK:
            if (job_done) begin
                state_reg <= job_bad ? END : WAIT;
                faulty_reg <= job_bad;
                fault_reg <= {64'd0, job_detail, {4{NA}}, `NK_STATUS_BAD_JOB};
            end
            // a job that fills the bins, or that may start from an earlier one's state, waits for those before
            WAIT:
            if (enters) begin
                state_reg <= identify ? END : LIMITS;
                enter_reg <= 1'b1;
                walkable_reg <= identify;
                sound_reg <= identify;
            end
            SEGMENTS:
            if (segments_done) begin
                state_reg <= segments_faulty ? END : has_state ? STATE : QUERY;
                enter_reg <= 1'b1;
                faulty_reg <= segments_faulty;
                sound_reg <= !segments_faulty;
                fault_reg <= segments_fault;
            end
            // an error reply outranks what the words say
            LIMITS, STATE, QUERY:
            if (load_done) begin
                state_reg <= read_error || load_bad || state_reg == QUERY ? END :
                    state_reg == LIMITS ? SEGMENTS : QUERY;
                enter_reg <= 1'b1;
                walkable_reg <= !(read_error || load_bad);
                faulty_reg <= read_error || load_bad;
                fault_reg <= read_error ? read_fault : load_fault;
            end
            END:
            if (!asking || faulty_reg) begin
                state_reg <= IDLE;
                done_reg <= 1'b1;
            end
            default: state_reg <= IDLE;
        endcase
        if (rst) begin
            state_reg <= IDLE;
            enter_reg <= 1'b0;
            done_reg <= 1'b0;
            walkable_reg <= 1'b0;
        end
    end

endmodule

`resetall
