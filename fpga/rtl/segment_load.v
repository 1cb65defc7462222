// SPDX-License-Identifier: Apache-2.0
// Takes the segments of a job and checks them, then the place of its new rows. The first of them are handed over as they
// are, each told when it has been found sound, so that the walk need not read them again.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module segment_load (
    input wire clk,
    input wire rst,

    // pulse; the job and the windows stay until `done`
    input wire start,
    input wire [2047:0] job,
    input wire [3:0] chunks,
    input wire [63:0] kv_window,
    input wire [63:0] kv_window_nbytes,
    input wire [63:0] ctl_window,
    input wire [63:0] ctl_window_nbytes,

    input wire [511:0] s_data,
    input wire s_error,
    input wire s_valid,
    output wire s_ready,
    // see job_fetch
    input wire [255:0] read_fault,

    // the first 16 segments; pulse: one more of them is sound
    output wire near_valid,
    input wire near_ready,
    output wire near_sound,

    // pulse; the others are valid with it
    output wire done,
    output wire faulty,
    output wire [255:0] fault
);

    localparam [17:0] NEAR = 18'd16;
    localparam [31:0] NA = `NK_NOT_APPLICABLE;
    // offset of the field
    localparam [31:0] NEW_FIRST = `NK_JOB_NEW_FIRST_LSB / 8;

    localparam [1:0] IDLE = 2'd0;
    localparam [1:0] SEGMENTS = 2'd1;
    localparam [1:0] NEW_ENTER = 2'd2;
    localparam [1:0] NEW_ROWS = 2'd3;

    reg [1:0] state_reg;
    reg [17:0] taken_reg;
    // segments found sound; taken and not yet judged
    reg [17:0] judged_reg;
    reg [1:0] flying_reg;

    wire [17:0] segments = job[`NK_JOB_SEGMENTS_LSB+:18];
    wire [6:0] new_tokens = job[`NK_JOB_NEW_TOKENS_LSB+:7];
    wire no_new = new_tokens == 7'd0;
    wire check_done;
    wire check_bad;
    wire [31:0] detail;

    wire is_new = state_reg == NEW_ENTER;
    wire [511:0] new_rows = {448'd0, job[`NK_JOB_NEW_FIRST_LSB+:32], 25'd0, new_tokens};
    wire near = taken_reg < NEAR;
    wire more = state_reg == SEGMENTS && taken_reg != segments;
    wire take = s_valid && s_ready;
    wire judged = state_reg == SEGMENTS && check_done;
    wire refused = judged && check_bad;
    // a segment that could not be read counts when those before it are sound
    wire lost = more && flying_reg == 2'd0 && s_valid && s_error;
    wire new_done = is_new && no_new || state_reg == NEW_ROWS && check_done;
    wire new_bad = !no_new && check_bad;

    segment_check check (
        .clk(clk),
        .restart(start),
        .chunks(chunks),
        .kv_window(kv_window),
        .kv_window_nbytes(kv_window_nbytes),
        .ctl_window(ctl_window),
        .ctl_window_nbytes(ctl_window_nbytes),
        .start(take || is_new && !no_new),
        .is_new(is_new),
        .segment(is_new ? new_rows : s_data),
        .done(check_done),
        .bad(check_bad),
        .detail(detail)
    );

    assign s_ready = more && !s_error && (near_ready || !near);
    assign near_valid = take && near;
    assign near_sound = judged && !check_bad && judged_reg < NEAR;
    assign done = refused || lost || new_done;
    assign faulty = refused || lost || new_bad;
    assign fault = refused ? {64'd0, detail, {3{NA}}, {14'd0, judged_reg}, `NK_STATUS_BAD_SEGMENT} :
        lost ? read_fault : {64'd0, NEW_FIRST, {4{NA}}, `NK_STATUS_BAD_JOB};

    always @(posedge clk) begin
        if (take) taken_reg <= taken_reg + 18'd1;
        if (judged) judged_reg <= judged_reg + 18'd1;
        flying_reg <= flying_reg + {1'b0, take} - {1'b0, judged};
        if (state_reg == SEGMENTS && judged_reg == segments) state_reg <= NEW_ENTER;
        if (is_new) state_reg <= NEW_ROWS;
        if (done) state_reg <= IDLE;
        if (start) begin
            state_reg <= SEGMENTS;
            taken_reg <= 18'd0;
            judged_reg <= 18'd0;
            flying_reg <= 2'd0;
        end
        if (rst) state_reg <= IDLE;
    end

endmodule

`resetall
