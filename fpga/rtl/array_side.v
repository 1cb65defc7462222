// SPDX-License-Identifier: Apache-2.0
// The array with what it reads: blocks of K and V, q, and the order in which it walks them. Dots and tile sums leave it.
// Wiring only.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module array_side (
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
    output wire k_release,
    output wire v_release,

    // see query_load; q of jobs of either parity is there
    input wire parity,
    input wire q_write,
    input wire [5:0] q_row,
    input wire [2:0] q_chunk,
    input wire q_half,
    input wire [383:0] q_elements,
    input wire [1:0] loaded,

    // see tile_top
    output wire [21:0] unit,
    output wire unit_valid,
    input wire tile_ready,
    output wire tile_taken,
    input wire [7:0] scan_row,
    output wire [4:0] scan_top,
    output wire [1:0] op_tile,
    input wire [447:0] descriptor,
    // see weight_buffer
    output wire weight_read,
    output wire [7:0] weight_addr,
    input wire [199:0] weight_mantissa,
    input wire [199:0] weight_whole,

    // see array_core
    output wire [439:0] dots,
    output wire dots_valid,
    output wire dots_parity,
    output wire [2:0] dots_group,
    output wire dots_weights,
    output wire [20:0] dots_position,
    output wire [4:0] dots_top,
    output wire dots_end,
    output wire sums_valid,
    output wire [14:0] sums_tag,
    output wire [13823:0] sums,
    output wire [239:0] weight_sums
);

    wire [38:0] visit_queued;
    wire visit_valid_queued;
    wire visit_ready_queued;
    wire op_valid;
    wire op_is_v;
    wire [10:0] op_addr;
    wire op_weights;
    wire op_parity;
    wire [2:0] op_group;
    wire [13:0] op_block;
    wire op_first;
    wire op_last;
    wire op_pad;
    wire op_present;
    wire [3:0] op_chunks;
    wire op_end;
    wire op_empty;
    wire [511:0] k_data;
    wire [4:0] k_top;
    wire [4:0] unused_k_top;
    wire [511:0] v_data;
    wire [4:0] v_top;
    wire q_read;
    wire q_read_parity;
    wire [2:0] q_read_group;
    wire [2:0] q_read_chunk;
    wire [6143:0] q_data;

    fifo #(
        .WIDTH(39),
        .DEPTH(4)
    ) visit_queue (
        .clk(clk),
        .rst(rst),
        .s_data(visit),
        .s_valid(visit_valid),
        .s_ready(visit_ready),
        .m_data(visit_queued),
        .m_valid(visit_valid_queued),
        .m_ready(visit_ready_queued)
    );

    array_sequencer sequencer (
        .clk(clk),
        .rst(rst),
        .visit(visit_queued),
        .visit_valid(visit_valid_queued),
        .visit_ready(visit_ready_queued),
        .loaded(loaded),
        .k_row(k_row),
        .k_release(k_release),
        .v_release(v_release),
        .unit(unit),
        .unit_valid(unit_valid),
        .tile_ready(tile_ready),
        .tile_taken(tile_taken),
        .op_valid(op_valid),
        .op_is_v(op_is_v),
        .op_addr(op_addr),
        .op_weights(op_weights),
        .op_parity(op_parity),
        .op_group(op_group),
        .op_block(op_block),
        .op_first(op_first),
        .op_last(op_last),
        .op_pad(op_pad),
        .op_present(op_present),
        .op_tile(op_tile),
        .op_chunks(op_chunks),
        .op_end(op_end),
        .op_empty(op_empty)
    );

    block_buffer k_buffer (
        .clk(clk),
        .w_valid(word_valid && !word_is_v),
        .w_addr(word_addr),
        .w_data(word_data),
        .w_top_valid(top_valid && !top_is_v),
        .w_top_addr(top_addr),
        .w_top(top),
        .r_valid(op_valid && !op_is_v),
        .r_addr(op_addr),
        .r_data(k_data),
        .r_top(k_top),
        .t_addr(8'd0),
        .t_top(unused_k_top)
    );

    block_buffer v_buffer (
        .clk(clk),
        .w_valid(word_valid && word_is_v),
        .w_addr(word_addr),
        .w_data(word_data),
        .w_top_valid(top_valid && top_is_v),
        .w_top_addr(top_addr),
        .w_top(top),
        .r_valid(op_valid && op_is_v),
        .r_addr(op_addr),
        .r_data(v_data),
        .r_top(v_top),
        .t_addr(scan_row),
        .t_top(scan_top)
    );

    query_buffer queries (
        .clk(clk),
        .w_parity(parity),
        .w_row(q_row),
        .w_chunk(q_chunk),
        .w_half(q_half),
        .w_data(q_elements),
        .w_valid(q_write),
        .r_valid(q_read),
        .r_parity(q_read_parity),
        .r_group(q_read_group),
        .r_chunk(q_read_chunk),
        .r_data(q_data)
    );

    array_core core (
        .clk(clk),
        .rst(rst),
        .op_valid(op_valid),
        .op_is_v(op_is_v),
        .op_addr(op_addr),
        .op_weights(op_weights),
        .op_parity(op_parity),
        .op_group(op_group),
        .op_block(op_block),
        .op_first(op_first),
        .op_last(op_last),
        .op_pad(op_pad),
        .op_present(op_present),
        .op_tile(op_tile),
        .op_chunks(op_chunks),
        .op_end(op_end),
        .op_empty(op_empty),
        .k_data(k_data),
        .k_top(k_top),
        .v_data(v_data),
        .v_top(v_top),
        .w_mantissa(weight_mantissa),
        .w_whole(weight_whole),
        .descriptor(descriptor),
        .q_valid(q_read),
        .q_parity(q_read_parity),
        .q_group(q_read_group),
        .q_chunk(q_read_chunk),
        .q_data(q_data),
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

    assign weight_read = op_valid && op_is_v;
    assign weight_addr = {op_weights, op_addr[9:3]};

endmodule

`resetall
