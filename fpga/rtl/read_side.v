// SPDX-License-Identifier: Apache-2.0
// K and V of a job from memory to the block buffers, and what was found wrong on the way. Wiring only.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module read_side (
    input wire clk,
    input wire rst,
    // clears all but the readers
    input wire restart,

    // see segment_walk
    input wire [2047:0] job,
    input wire [3:0] chunks,
    input wire half_last,
    input wire parity,
    input wire prepare_sound,
    input wire walk_refused,
    input wire walk_valid,
    output wire walk_ready,
    output wire walk_failed,
    output wire [57:0] walk_failed_word,
    input wire [511:0] near_data,
    input wire near_valid,
    output wire near_ready,
    input wire near_sound,
    // see step_judge
    output wire job_sound,
    input wire job_taken,
    output wire [31:0] beats,
    output wire judge_faulty,
    output wire [255:0] judge_fault,

    // readers on ctl: new rows (0), checksums (1), segments (2); on kv (3)
    input wire flush,
    output wire idle,
    output wire [255:0] ar_addr,
    output wire [31:0] ar_len,
    output wire [3:0] ar_valid,
    input wire [3:0] ar_ready,
    input wire [511:0] ctl_data,
    input wire ctl_error,
    input wire [511:0] kv_data,
    input wire kv_error,
    input wire [3:0] r_valid,

    // see step_reader
    output wire [38:0] visit,
    output wire visit_valid,
    input wire visit_ready,
    // see block_writer
    output wire word_valid,
    output wire word_is_v,
    output wire [10:0] word_addr,
    output wire [511:0] word_data,
    output wire top_valid,
    output wire top_is_v,
    output wire [7:0] top_addr,
    output wire [4:0] top,
    output wire k_row,
    output wire v_row,
    input wire k_release,
    input wire v_release
);

    wire [57:0] step_word;
    wire [24:0] step_count;
    wire kv_cmd_valid;
    wire kv_cmd_ready;
    wire new_cmd_valid;
    wire new_cmd_ready;
    wire [146:0] task_data;
    wire task_valid;
    wire task_ready;
    wire [32:0] k_crc;
    wire k_crc_valid;
    wire k_crc_ready;
    wire [32:0] v_crc;
    wire v_crc_valid;
    wire v_crc_ready;
    wire [57:0] crc_error_word;
    wire [511:0] new_word;
    wire new_error;
    wire new_valid;
    wire new_ready;
    wire [511:0] kv_word;
    wire kv_word_error;
    wire kv_word_valid;
    wire kv_word_ready;
    wire [146:0] task_queued;
    wire task_valid_queued;
    wire task_ready_queued;
    wire [202:0] record;
    wire record_valid;
    wire record_ready;
    wire [202:0] record_queued;
    wire record_valid_queued;
    wire record_ready_queued;

    wire walk_idle;
    wire new_idle;
    wire kv_idle;

    assign idle = walk_idle && new_idle && kv_idle;

    walk_side walk (
        .clk(clk),
        .rst(rst),
        .restart(restart),
        .job(job),
        .chunks(chunks),
        .half_last(half_last),
        .parity(parity),
        .prepare_sound(prepare_sound),
        .walk_refused(walk_refused),
        .walk_valid(walk_valid),
        .walk_ready(walk_ready),
        .walk_failed(walk_failed),
        .walk_failed_word(walk_failed_word),
        .near_data(near_data),
        .near_valid(near_valid),
        .near_ready(near_ready),
        .near_sound(near_sound),
        .flush(flush),
        .idle(walk_idle),
        .ar_addr(ar_addr[191:64]),
        .ar_len(ar_len[23:8]),
        .ar_valid(ar_valid[2:1]),
        .ar_ready(ar_ready[2:1]),
        .r_data(ctl_data),
        .r_error(ctl_error),
        .r_valid(r_valid[2:1]),
        .step_word(step_word),
        .step_count(step_count),
        .kv_cmd_valid(kv_cmd_valid),
        .kv_cmd_ready(kv_cmd_ready),
        .new_cmd_valid(new_cmd_valid),
        .new_cmd_ready(new_cmd_ready),
        .task_data(task_data),
        .task_valid(task_valid),
        .task_ready(task_ready),
        .visit(visit),
        .visit_valid(visit_valid),
        .visit_ready(visit_ready),
        .k_crc(k_crc),
        .k_crc_valid(k_crc_valid),
        .k_crc_ready(k_crc_ready),
        .v_crc(v_crc),
        .v_crc_valid(v_crc_valid),
        .v_crc_ready(v_crc_ready),
        .crc_error_word(crc_error_word)
    );

    axi_read_stream #(
        .DEPTH(512)
    ) new_reader (
        .clk(clk),
        .rst(rst),
        .flush(flush),
        .idle(new_idle),
        .s_cmd_word(step_word),
        .s_cmd_count(step_count),
        .s_cmd_valid(new_cmd_valid),
        .s_cmd_ready(new_cmd_ready),
        .m_data(new_word),
        .m_error(new_error),
        .m_valid(new_valid),
        .m_ready(new_ready),
        .m_ar_addr(ar_addr[63:0]),
        .m_ar_len(ar_len[7:0]),
        .m_ar_valid(ar_valid[0]),
        .m_ar_ready(ar_ready[0]),
        .s_r_data(ctl_data),
        .s_r_error(ctl_error),
        .s_r_valid(r_valid[0])
    );

    axi_read_stream #(
        .DEPTH(512)
    ) kv_reader (
        .clk(clk),
        .rst(rst),
        .flush(flush),
        .idle(kv_idle),
        .s_cmd_word(step_word),
        .s_cmd_count(step_count),
        .s_cmd_valid(kv_cmd_valid),
        .s_cmd_ready(kv_cmd_ready),
        .m_data(kv_word),
        .m_error(kv_word_error),
        .m_valid(kv_word_valid),
        .m_ready(kv_word_ready),
        .m_ar_addr(ar_addr[255:192]),
        .m_ar_len(ar_len[31:24]),
        .m_ar_valid(ar_valid[3]),
        .m_ar_ready(ar_ready[3]),
        .s_r_data(kv_data),
        .s_r_error(kv_error),
        .s_r_valid(r_valid[3])
    );

    fifo #(
        .WIDTH(147),
        .DEPTH(16)
    ) task_queue (
        .clk(clk),
        .rst(restart),
        .s_data(task_data),
        .s_valid(task_valid),
        .s_ready(task_ready),
        .m_data(task_queued),
        .m_valid(task_valid_queued),
        .m_ready(task_ready_queued)
    );

    block_writer writer (
        .clk(clk),
        .rst(restart),
        .task_data(task_queued),
        .task_valid(task_valid_queued),
        .task_ready(task_ready_queued),
        .kv_data(kv_word),
        .kv_error(kv_word_error),
        .kv_valid(kv_word_valid),
        .kv_ready(kv_word_ready),
        .new_data(new_word),
        .new_error(new_error),
        .new_valid(new_valid),
        .new_ready(new_ready),
        .word_valid(word_valid),
        .word_is_v(word_is_v),
        .word_addr(word_addr),
        .word_data(word_data),
        .top_valid(top_valid),
        .top_is_v(top_is_v),
        .top_addr(top_addr),
        .top(top),
        .k_row(k_row),
        .v_row(v_row),
        .k_release(k_release),
        .v_release(v_release),
        .record(record),
        .record_valid(record_valid),
        .record_ready(record_ready)
    );

    fifo #(
        .WIDTH(203),
        .DEPTH(32),
        .SPARE(8)
    ) record_queue (
        .clk(clk),
        .rst(restart),
        .s_data(record),
        .s_valid(record_valid),
        .s_ready(record_ready),
        .m_data(record_queued),
        .m_valid(record_valid_queued),
        .m_ready(record_ready_queued)
    );

    step_judge judge (
        .clk(clk),
        .rst(restart),
        .record(record_queued),
        .record_valid(record_valid_queued),
        .record_ready(record_ready_queued),
        .k_crc(k_crc),
        .k_crc_valid(k_crc_valid),
        .k_crc_ready(k_crc_ready),
        .v_crc(v_crc),
        .v_crc_valid(v_crc_valid),
        .v_crc_ready(v_crc_ready),
        .crc_error_word(crc_error_word),
        .job_sound(job_sound),
        .job_taken(job_taken),
        .beats(beats),
        .faulty(judge_faulty),
        .fault(judge_fault)
    );

endmodule

`resetall
