// SPDX-License-Identifier: Apache-2.0
// What a job says of its rows, and the weights of its tokens: loads limits, state and q, turns dots into weights, keeps
// them for the array. Hands the state on to the bins. Wiring only.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module score_side (
    input wire clk,
    input wire rst,

    // see job_load
    input wire [2:0] load_start,
    input wire [2047:0] job,
    input wire [3:0] chunks,
    input wire half_last,
    input wire [6:0] group,
    input wire parity,
    input wire [511:0] load_data,
    input wire load_valid,
    output wire load_ready,
    output wire load_done,
    output wire load_bad,
    output wire [255:0] load_fault,

    // see query_buffer
    output wire q_valid,
    output wire [5:0] q_row,
    output wire [2:0] q_chunk,
    output wire q_half,
    output wire [383:0] q_data,
    // see bin_side: bins, (L, T), an empty T
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
    input wire l_ready,
    output wire limit_row_valid,
    output wire [5:0] limit_row,
    input wire limit_row_ready,

    // see score_stage
    input wire [439:0] dots,
    input wire dots_valid,
    input wire dots_parity,
    input wire [2:0] dots_group,
    input wire dots_weights,
    input wire [20:0] dots_position,
    input wire [4:0] dots_top,
    input wire dots_end,
    input wire [47:0] scales,
    output wire weights_done,
    output wire clamped,
    output wire clamped_parity,

    // see weight_buffer
    input wire r_valid,
    input wire [7:0] r_addr,
    output wire [199:0] r_mantissa,
    output wire [199:0] r_whole,
    input wire [7:0] t_addr,
    output wire [199:0] t_whole
);

    wire [21:0] limit_low;
    wire [21:0] limit_high;
    wire q_shift_valid;
    wire [9:0] q_shift;
    wire table_parity;
    wire [2:0] table_group;
    wire [175:0] table_low;
    wire [175:0] table_high;
    wire [79:0] table_shift;
    wire w_valid;
    wire w_upper;
    wire [7:0] w_addr;
    wire [99:0] w_mantissa;
    wire [95:0] w_whole;
    wire [3:0] w_visible;

    job_load load (
        .clk(clk),
        .rst(rst),
        .start(load_start),
        .job(job),
        .chunks(chunks),
        .half_last(half_last),
        .group(group),
        .s_data(load_data),
        .s_valid(load_valid),
        .s_ready(load_ready),
        .done(load_done),
        .bad(load_bad),
        .fault(load_fault),
        .limit_row_valid(limit_row_valid),
        .limit_row(limit_row),
        .limit_low(limit_low),
        .limit_high(limit_high),
        .limit_row_ready(limit_row_ready),
        .q_valid(q_valid),
        .q_row(q_row),
        .q_chunk(q_chunk),
        .q_half(q_half),
        .q_data(q_data),
        .q_shift_valid(q_shift_valid),
        .q_shift(q_shift),
        .o_valid(o_valid),
        .o_row(o_row),
        .o_word(o_word),
        .o_half(o_half),
        .o_bin(o_bin),
        .o_data(o_data),
        .o_ready(o_ready),
        .l_valid(l_valid),
        .l_row(l_row),
        .l_data(l_data),
        .l_seen(l_seen),
        .l_top(l_top),
        .l_ready(l_ready)
    );

    row_table rows (
        .clk(clk),
        .w_parity(parity),
        .w_limit_row(limit_row),
        .w_low(limit_low),
        .w_high(limit_high),
        .w_limit_valid(limit_row_valid),
        .w_shift_row(q_row),
        .w_shift(q_shift),
        .w_shift_valid(q_shift_valid),
        .r_parity(table_parity),
        .r_group(table_group),
        .r_low(table_low),
        .r_high(table_high),
        .r_shift(table_shift)
    );

    score_stage scores (
        .clk(clk),
        .s_dots(dots),
        .s_valid(dots_valid),
        .s_parity(dots_parity),
        .s_group(dots_group),
        .s_weights(dots_weights),
        .s_position(dots_position),
        .s_top(dots_top),
        .s_end(dots_end),
        .scales(scales),
        .r_parity(table_parity),
        .r_group(table_group),
        .r_low(table_low),
        .r_high(table_high),
        .r_shift(table_shift),
        .w_valid(w_valid),
        .w_upper(w_upper),
        .w_addr(w_addr),
        .w_mantissa(w_mantissa),
        .w_whole(w_whole),
        .w_visible(w_visible),
        .done(weights_done),
        .clamped(clamped),
        .clamped_parity(clamped_parity)
    );

    weight_buffer weights (
        .clk(clk),
        .w_valid(w_valid),
        .w_upper(w_upper),
        .w_addr(w_addr),
        .w_mantissa(w_mantissa),
        .w_whole(w_whole),
        .w_visible(w_visible),
        .r_valid(r_valid),
        .r_addr(r_addr),
        .r_mantissa(r_mantissa),
        .r_whole(r_whole),
        .t_addr(t_addr),
        .t_whole(t_whole)
    );

endmodule

`resetall
