// SPDX-License-Identifier: Apache-2.0
// The rows of a job to the tables of the array: limits, state, q, one after the other. Does not know addresses.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module job_load (
    input wire clk,
    input wire rst,

    // pulses for limits, state, q; the job stays until `done`
    input wire [2:0] start,
    input wire [2047:0] job,
    input wire [3:0] chunks,
    input wire half_last,
    input wire [6:0] group,

    input wire [511:0] s_data,
    input wire s_valid,
    output wire s_ready,

    // pulse; the others are valid with it
    output wire done,
    output wire bad,
    output wire [255:0] fault,

    // see limit_load
    output wire limit_row_valid,
    output wire [5:0] limit_row,
    output wire [21:0] limit_low,
    output wire [21:0] limit_high,
    input wire limit_row_ready,
    // see query_load
    output wire q_valid,
    output wire [5:0] q_row,
    output wire [2:0] q_chunk,
    output wire q_half,
    output wire [383:0] q_data,
    output wire q_shift_valid,
    output wire [9:0] q_shift,
    // see state_load
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

    wire [6:0] rows = job[`NK_JOB_ROWS_LSB+:7];
    wire limits_done;
    wire limits_bad;
    wire [31:0] limits_position;
    wire [31:0] limits_detail;
    wire limits_ready;
    wire state_done;
    wire state_bad;
    wire [31:0] state_position;
    wire state_ready;
    wire q_done;
    wire q_bad;
    wire [31:0] q_position;
    wire q_ready;
    wire [31:0] na = `NK_NOT_APPLICABLE;

    limit_load load_limits (
        .clk(clk),
        .rst(rst),
        .start(start[0]),
        .query_tokens(job[`NK_JOB_QUERY_TOKENS_LSB+:7]),
        .group(group),
        .window(job[`NK_JOB_WINDOW_LSB+:21]),
        .s_data(s_data),
        .s_valid(s_valid),
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
        .start(start[1]),
        .rows(rows),
        .chunks(chunks),
        .half_last(half_last),
        .s_data(s_data),
        .s_valid(s_valid),
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
        .start(start[2]),
        .rows(rows),
        .chunks(chunks),
        .half_last(half_last),
        .scale_exponent(job[`NK_JOB_SCALE_EXPONENT_LSB+:8]),
        .s_data(s_data),
        .s_valid(s_valid),
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

    // only the loader at hand takes words
    assign s_ready = limits_ready || state_ready || q_ready;
    assign done = limits_done || state_done || q_done;
    assign bad = limits_done && limits_bad || state_done && state_bad || q_done && q_bad;
    assign fault = limits_done ? {64'd0, limits_detail, limits_position, na, na, na, `NK_STATUS_BAD_LIMIT} :
        state_done ? {64'd0, na, state_position, `NK_KIND_STATE, na, na, `NK_STATUS_BAD_STATE} :
        {64'd0, na, q_position, `NK_KIND_Q, na, na, `NK_STATUS_NONFINITE_Q};

endmodule

`resetall
