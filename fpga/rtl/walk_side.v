// SPDX-License-Identifier: Apache-2.0
// From a job to what is read of it: its segments in pieces, in the order of the reads, with their checksums. Queues and
// wiring only.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module walk_side (
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

    // readers of checksums (0) and of segments (1)
    input wire flush,
    output wire idle,
    output wire [127:0] ar_addr,
    output wire [15:0] ar_len,
    output wire [1:0] ar_valid,
    input wire [1:0] ar_ready,
    input wire [511:0] r_data,
    input wire r_error,
    input wire [1:0] r_valid,

    // see step_reader
    output wire [57:0] step_word,
    output wire [24:0] step_count,
    output wire kv_cmd_valid,
    input wire kv_cmd_ready,
    output wire new_cmd_valid,
    input wire new_cmd_ready,
    output wire [146:0] task_data,
    output wire task_valid,
    input wire task_ready,
    output wire [38:0] visit,
    output wire visit_valid,
    input wire visit_ready,

    // see checksum_fetch
    output wire [32:0] k_crc,
    output wire k_crc_valid,
    input wire k_crc_ready,
    output wire [32:0] v_crc,
    output wire v_crc_valid,
    input wire v_crc_ready,
    output wire [57:0] crc_error_word
);

    wire [511:0] near_data_queued;
    wire near_valid_queued;
    wire near_ready_queued;
    wire [60:0] crc_entry;
    wire [19:0] crc_pages;
    wire crc_valid;
    wire crc_ready;
    wire [207:0] piece;
    wire piece_valid;
    wire piece_ready;
    wire walk_idle;
    wire crc_valid_queued;
    wire crc_ready_queued;
    wire [60:0] crc_entry_queued;
    wire [19:0] crc_pages_queued;
    wire [207:0] piece_queued;
    wire piece_valid_queued;
    wire piece_ready_queued;

    wire [115:0] cmd_word;
    wire [49:0] cmd_count;
    wire [1:0] cmd_valid;
    wire [1:0] cmd_ready;
    wire [1023:0] read_data;
    wire [1:0] read_error;
    wire [1:0] read_valid;
    wire [1:0] read_ready;
    wire [1:0] read_idle;

    // segments in near_queue that have been found sound
    reg [4:0] near_count_reg;
    wire near_taken = near_ready_queued && near_valid_queued && near_count_reg != 5'd0;

    assign idle = read_idle == 2'b11;

    always @(posedge clk) begin
        near_count_reg <= near_count_reg + {4'd0, near_sound} - {4'd0, near_taken};
        if (restart) near_count_reg <= 5'd0;
    end

    genvar r;
    generate
        for (r = 0; r < 2; r = r + 1) begin : reader
            axi_read_stream #(
                .DEPTH(16),
                .MAX_BURST(16)
            ) stream (
                .clk(clk),
                .rst(rst),
                .flush(flush),
                .idle(read_idle[r]),
                .s_cmd_word(cmd_word[r*58+:58]),
                .s_cmd_count(cmd_count[r*25+:25]),
                .s_cmd_valid(cmd_valid[r]),
                .s_cmd_ready(cmd_ready[r]),
                .m_data(read_data[r*512+:512]),
                .m_error(read_error[r]),
                .m_valid(read_valid[r]),
                .m_ready(read_ready[r]),
                .m_ar_addr(ar_addr[r*64+:64]),
                .m_ar_len(ar_len[r*8+:8]),
                .m_ar_valid(ar_valid[r]),
                .m_ar_ready(ar_ready[r]),
                .s_r_data(r_data),
                .s_r_error(r_error),
                .s_r_valid(r_valid[r])
            );
        end
    endgenerate

    fifo #(
        .WIDTH(512),
        .DEPTH(16)
    ) near_queue (
        .clk(clk),
        .rst(restart),
        .s_data(near_data),
        .s_valid(near_valid),
        .s_ready(near_ready),
        .m_data(near_data_queued),
        .m_valid(near_valid_queued),
        .m_ready(near_taken)
    );

    segment_walk walk (
        .clk(clk),
        .rst(restart),
        .job(job),
        .chunks(chunks),
        .half_last(half_last),
        .parity(parity),
        .job_valid(walk_valid),
        .job_ready(walk_ready),
        .sound(prepare_sound),
        .refused(walk_refused),
        .near_data(near_data_queued),
        .near_valid(near_valid_queued && near_count_reg != 5'd0),
        .near_ready(near_ready_queued),
        .cmd_word(cmd_word[115:58]),
        .cmd_count(cmd_count[49:25]),
        .cmd_valid(cmd_valid[1]),
        .cmd_ready(cmd_ready[1]),
        .far_data(read_data[1023:512]),
        .far_error(read_error[1]),
        .far_valid(read_valid[1]),
        .far_ready(read_ready[1]),
        .failed(walk_failed),
        .failed_word(walk_failed_word),
        .crc_entry(crc_entry),
        .crc_pages(crc_pages),
        .crc_valid(crc_valid),
        .crc_ready(crc_ready),
        .piece(piece),
        .piece_valid(piece_valid),
        .piece_ready(piece_ready),
        .idle(walk_idle)
    );

    fifo #(
        .WIDTH(81),
        .DEPTH(16)
    ) crc_queue (
        .clk(clk),
        .rst(restart),
        .s_data({crc_pages, crc_entry}),
        .s_valid(crc_valid),
        .s_ready(crc_ready),
        .m_data({crc_pages_queued, crc_entry_queued}),
        .m_valid(crc_valid_queued),
        .m_ready(crc_ready_queued)
    );

    checksum_fetch checksums (
        .clk(clk),
        .rst(restart),
        .s_entry(crc_entry_queued),
        .s_pages(crc_pages_queued),
        .s_valid(crc_valid_queued),
        .s_ready(crc_ready_queued),
        .cmd_word(cmd_word[57:0]),
        .cmd_count(cmd_count[24:0]),
        .cmd_valid(cmd_valid[0]),
        .cmd_ready(cmd_ready[0]),
        .r_data(read_data[511:0]),
        .r_error(read_error[0]),
        .r_valid(read_valid[0]),
        .r_ready(read_ready[0]),
        .k_crc(k_crc),
        .k_valid(k_crc_valid),
        .k_ready(k_crc_ready),
        .v_crc(v_crc),
        .v_valid(v_crc_valid),
        .v_ready(v_crc_ready),
        .error_word(crc_error_word)
    );

    fifo #(
        .WIDTH(208),
        .DEPTH(16)
    ) piece_queue (
        .clk(clk),
        .rst(restart),
        .s_data(piece),
        .s_valid(piece_valid),
        .s_ready(piece_ready),
        .m_data(piece_queued),
        .m_valid(piece_valid_queued),
        .m_ready(piece_ready_queued)
    );

    step_reader steps (
        .clk(clk),
        .rst(restart),
        .piece(piece_queued),
        .piece_valid(piece_valid_queued),
        .piece_ready(piece_ready_queued),
        .walk_idle(walk_idle),
        .cmd_word(step_word),
        .cmd_count(step_count),
        .kv_cmd_valid(kv_cmd_valid),
        .kv_cmd_ready(kv_cmd_ready),
        .new_cmd_valid(new_cmd_valid),
        .new_cmd_ready(new_cmd_ready),
        .task_data(task_data),
        .task_valid(task_valid),
        .task_ready(task_ready),
        .visit(visit),
        .visit_valid(visit_valid),
        .visit_ready(visit_ready)
    );

endmodule

`resetall
