// SPDX-License-Identifier: Apache-2.0
// What the rows have accumulated: tops of tiles, T, bins of O and L. The array adds to it, a stored state fills it,
// job_finish reads it. Wiring only.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module bin_side (
    input wire clk,
    input wire rst,

    // see tile_top
    input wire [21:0] unit,
    input wire unit_valid,
    input wire weights_done,
    input wire v_row,
    input wire tile_taken,
    output wire tile_ready,
    output wire [7:0] w_addr,
    input wire [199:0] w_whole,
    output wire [7:0] t_addr,
    input wire [4:0] t_top,
    input wire [1:0] a_tile,
    output wire [447:0] a_descriptor,

    // see bin_update
    input wire sums_valid,
    input wire [14:0] sums_tag,
    input wire [13823:0] sums,
    input wire [239:0] weight_sums,
    input wire [1:0] big,
    output wire job_done,

    // the job that is loaded: bins, (L, T), an empty T
    input wire parity,
    input wire parity_big,
    input wire [3:0] chunks,
    input wire o_valid,
    input wire [5:0] o_row,
    input wire [3:0] o_word,
    input wire o_half,
    input wire [1:0] o_bin,
    input wire [399:0] o_data,
    output wire o_ready,
    input wire l_valid,
    input wire [5:0] l_row,
    input wire [149:0] l_data,
    input wire l_seen,
    input wire [19:0] l_top,
    output wire l_ready,
    input wire limit_row_valid,
    input wire [5:0] limit_row,
    output wire limit_row_ready,

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

    wire [1:0] bin_tile;
    wire [447:0] bin_descriptor;
    wire u_read;
    wire [9:0] u_read_addr;
    wire [6:0] u_read_row;
    wire u_write;
    wire [9:0] u_write_addr;
    wire [2399:0] u_data;
    wire u_l_write;
    wire [6:0] u_l_row;
    wire [149:0] u_l_data;
    wire [9:0] o_addr;

    wire store_l_ready;
    wire top_ready;

    assign l_ready = top_ready && store_l_ready;
    assign limit_row_ready = top_ready;

    tile_top tops (
        .clk(clk),
        .rst(rst),
        .unit(unit),
        .unit_valid(unit_valid),
        .weights_done(weights_done),
        .v_row(v_row),
        .tile_taken(tile_taken),
        .tile_ready(tile_ready),
        .w_addr(w_addr),
        .w_whole(w_whole),
        .t_addr(t_addr),
        .t_top(t_top),
        .a_tile(a_tile),
        .a_descriptor(a_descriptor),
        .b_tile(bin_tile),
        .b_descriptor(bin_descriptor),
        .w_parity(parity),
        .s_row(l_valid ? l_row : limit_row),
        .s_seen(l_valid && l_seen),
        .s_top(l_top),
        .s_valid(l_valid && store_l_ready || limit_row_valid),
        .s_ready(top_ready),
        .f_row(f_row),
        .f_seen(f_seen),
        .f_top(f_top)
    );

    bin_update update (
        .clk(clk),
        .rst(rst),
        .s_valid(sums_valid),
        .s_tag(sums_tag),
        .sums(sums),
        .weight_sums(weight_sums),
        .big(big),
        .tile(bin_tile),
        .descriptor(bin_descriptor),
        .read(u_read),
        .read_addr(u_read_addr),
        .read_row(u_read_row),
        .read_data(bins),
        .read_l_data(l_bins),
        .write(u_write),
        .write_addr(u_write_addr),
        .write_data(u_data),
        .l_write(u_l_write),
        .l_row(u_l_row),
        .l_data(u_l_data),
        .job_done(job_done)
    );

    bin_address state_place (
        .parity(parity),
        .big(parity_big),
        .chunks(chunks),
        .row(o_row),
        .word(o_word),
        .addr(o_addr)
    );

    bin_store store (
        .clk(clk),
        .u_read(u_read),
        .u_read_addr(u_read_addr),
        .u_read_row(u_read_row),
        .u_write(u_write),
        .u_write_addr(u_write_addr),
        .u_data(u_data),
        .u_l_write(u_l_write),
        .u_l_row(u_l_row),
        .u_l_data(u_l_data),
        .s_valid(o_valid),
        .s_ready(o_ready),
        .s_addr(o_addr),
        .s_half(o_half),
        .s_bin(o_bin),
        .s_data(o_data),
        .s_l_valid(l_valid && top_ready),
        .s_l_ready(store_l_ready),
        .s_l_row({parity, l_row}),
        .s_l_data(l_data),
        .f_valid(f_valid),
        .f_ready(f_ready),
        .f_addr(f_addr),
        .f_row(f_row),
        .data(bins),
        .l_data(l_bins)
    );

endmodule

`resetall
