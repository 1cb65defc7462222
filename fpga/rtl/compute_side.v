// SPDX-License-Identifier: Apache-2.0
// Everything between the blocks of K and V and the bins: the array, the weights, the bins (docs/rtl.md). Wiring only.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module compute_side (
    input wire clk,
    input wire rst,

    // see step_reader
    input wire [38:0] visit,
    input wire visit_valid,
    output wire visit_ready,
    // see block_writer
    input wire word_valid,
    input wire word_is_v,
    input wire [10:0] word_addr,
    input wire [511:0] word_data,
    input wire top_valid,
    input wire top_is_v,
    input wire [7:0] top_addr,
    input wire [4:0] top,
    input wire k_row,
    input wire v_row,
    output wire k_release,
    output wire v_release,

    // the job that is loaded, see job_load
    input wire [2:0] load_start,
    input wire [2047:0] job,
    input wire [3:0] chunks,
    input wire half_last,
    input wire [6:0] group,
    input wire parity,
    input wire parity_big,
    input wire [511:0] load_data,
    input wire load_valid,
    output wire load_ready,
    output wire load_done,
    output wire load_bad,
    output wire [255:0] load_fault,
    // of both jobs: q is there, scale mantissa, bins fill the store
    input wire [1:0] loaded,
    input wire [47:0] scales,
    input wire [1:0] big,
    // pulses: a visible score was clamped, in which job; the last bins of a job have been written
    output wire clamped,
    output wire clamped_parity,
    output wire bins_done,

    // see bin_words
    input wire f_valid,
    output wire f_ready,
    input wire [9:0] f_addr,
    input wire [6:0] f_row,
    output wire f_seen,
    output wire [19:0] f_top,
    output wire [2399:0] bins,
    output wire [149:0] l_bins
);

    wire q_valid;
    wire [5:0] q_row;
    wire [2:0] q_chunk;
    wire q_half;
    wire [383:0] q_data;
    wire [21:0] unit;
    wire unit_valid;
    wire tile_ready;
    wire tile_taken;
    wire [7:0] scan_row;
    wire [4:0] scan_top;
    wire [1:0] op_tile;
    wire [447:0] descriptor;
    wire weight_read;
    wire [7:0] weight_addr;
    wire [199:0] weight_mantissa;
    wire [199:0] weight_whole;
    wire [439:0] dots;
    wire dots_valid;
    wire dots_parity;
    wire [2:0] dots_group;
    wire dots_weights;
    wire [20:0] dots_position;
    wire [4:0] dots_top;
    wire dots_end;
    wire sums_valid;
    wire [14:0] sums_tag;
    wire [13823:0] sums;
    wire [239:0] weight_sums;
    wire o_valid;
    wire [5:0] o_row;
    wire [3:0] o_word;
    wire o_half;
    wire [1:0] o_bin;
    wire [399:0] o_data;
    wire o_ready;
    wire l_valid;
    wire [5:0] l_row;
    wire [149:0] l_data;
    wire l_seen;
    wire [19:0] l_top;
    wire l_ready;
    wire limit_row_valid;
    wire [5:0] limit_row;
    wire limit_row_ready;
    wire weights_done;
    wire [7:0] scan_weight;
    wire [199:0] scan_whole;

    array_side array (
        .clk(clk),
        .rst(rst),
        .visit(visit),
        .visit_valid(visit_valid),
        .visit_ready(visit_ready),
        .word_valid(word_valid),
        .word_is_v(word_is_v),
        .word_addr(word_addr),
        .word_data(word_data),
        .top_valid(top_valid),
        .top_is_v(top_is_v),
        .top_addr(top_addr),
        .top(top),
        .k_row(k_row),
        .k_release(k_release),
        .v_release(v_release),
        .parity(parity),
        .q_write(q_valid),
        .q_row(q_row),
        .q_chunk(q_chunk),
        .q_half(q_half),
        .q_elements(q_data),
        .loaded(loaded),
        .unit(unit),
        .unit_valid(unit_valid),
        .tile_ready(tile_ready),
        .tile_taken(tile_taken),
        .scan_row(scan_row),
        .scan_top(scan_top),
        .op_tile(op_tile),
        .descriptor(descriptor),
        .weight_read(weight_read),
        .weight_addr(weight_addr),
        .weight_mantissa(weight_mantissa),
        .weight_whole(weight_whole),
        .dots(dots),
        .dots_valid(dots_valid),
        .dots_parity(dots_parity),
        .dots_group(dots_group),
        .dots_weights(dots_weights),
        .dots_position(dots_position),
        .dots_top(dots_top),
        .dots_end(dots_end),
        .sums_valid(sums_valid),
        .sums_tag(sums_tag),
        .sums(sums),
        .weight_sums(weight_sums)
    );

    score_side scores (
        .clk(clk),
        .rst(rst),
        .load_start(load_start),
        .job(job),
        .chunks(chunks),
        .half_last(half_last),
        .group(group),
        .parity(parity),
        .load_data(load_data),
        .load_valid(load_valid),
        .load_ready(load_ready),
        .load_done(load_done),
        .load_bad(load_bad),
        .load_fault(load_fault),
        .q_valid(q_valid),
        .q_row(q_row),
        .q_chunk(q_chunk),
        .q_half(q_half),
        .q_data(q_data),
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
        .l_ready(l_ready),
        .limit_row_valid(limit_row_valid),
        .limit_row(limit_row),
        .limit_row_ready(limit_row_ready),
        .dots(dots),
        .dots_valid(dots_valid),
        .dots_parity(dots_parity),
        .dots_group(dots_group),
        .dots_weights(dots_weights),
        .dots_position(dots_position),
        .dots_top(dots_top),
        .dots_end(dots_end),
        .scales(scales),
        .weights_done(weights_done),
        .clamped(clamped),
        .clamped_parity(clamped_parity),
        .r_valid(weight_read),
        .r_addr(weight_addr),
        .r_mantissa(weight_mantissa),
        .r_whole(weight_whole),
        .t_addr(scan_weight),
        .t_whole(scan_whole)
    );

    bin_side sums_of_rows (
        .clk(clk),
        .rst(rst),
        .unit(unit),
        .unit_valid(unit_valid),
        .weights_done(weights_done),
        .v_row(v_row),
        .tile_taken(tile_taken),
        .tile_ready(tile_ready),
        .w_addr(scan_weight),
        .w_whole(scan_whole),
        .t_addr(scan_row),
        .t_top(scan_top),
        .a_tile(op_tile),
        .a_descriptor(descriptor),
        .sums_valid(sums_valid),
        .sums_tag(sums_tag),
        .sums(sums),
        .weight_sums(weight_sums),
        .big(big),
        .job_done(bins_done),
        .parity(parity),
        .parity_big(parity_big),
        .chunks(chunks),
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
        .l_ready(l_ready),
        .limit_row_valid(limit_row_valid),
        .limit_row(limit_row),
        .limit_row_ready(limit_row_ready),
        .f_valid(f_valid),
        .f_ready(f_ready),
        .f_addr(f_addr),
        .f_row(f_row),
        .f_seen(f_seen),
        .f_top(f_top),
        .bins(bins),
        .l_bins(l_bins)
    );

endmodule

`resetall
