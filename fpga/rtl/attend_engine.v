// SPDX-License-Identifier: Apache-2.0
// The block diagram: a list comes in, K and V are read, rows are computed, results are written. Wiring only;
// each side is in docs/rtl.md.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module attend_engine (
    input wire clk,
    input wire rst,

    // see control_registers
    input wire list_start,
    input wire [63:0] kv_register,
    input wire [63:0] ctl_register,
    input wire [63:0] out_register,
    output wire list_accepted,
    output wire list_done,

    output wire [63:0] m_axi_kv_araddr,
    output wire [7:0] m_axi_kv_arlen,
    output wire m_axi_kv_arvalid,
    input wire m_axi_kv_arready,
    input wire [511:0] m_axi_kv_rdata,
    input wire m_axi_kv_rerror,
    input wire m_axi_kv_rvalid,

    // readers of m_axi_ctl: 0 new rows, 1 checksums, 2 segments, 3 preparation, 4 tail copies
    output wire [319:0] ar_addr,
    output wire [39:0] ar_len,
    output wire [4:0] ar_valid,
    input wire [4:0] ar_ready,
    input wire [511:0] r_data,
    input wire r_error,
    input wire [4:0] r_valid,

    output wire [63:0] m_axi_out_awaddr,
    output wire m_axi_out_awvalid,
    input wire m_axi_out_awready,
    output wire [511:0] m_axi_out_wdata,
    output wire m_axi_out_wvalid,
    input wire m_axi_out_wready,
    input wire [1:0] m_axi_out_bresp,
    input wire m_axi_out_bvalid,
    output wire m_axi_out_bready
);

    wire [2047:0] job;
    wire [3:0] chunks;
    wire half_last;
    wire [6:0] group;
    wire parity;
    wire parity_big;
    wire prepare_sound;
    wire walk_refused;
    wire walk_valid;
    wire walk_ready;
    wire walk_failed;
    wire [57:0] walk_failed_word;
    wire [511:0] near_data;
    wire near_valid;
    wire near_ready;
    wire near_sound;
    wire [2:0] load_start;
    wire [511:0] load_data;
    wire load_valid;
    wire load_ready;
    wire load_done;
    wire load_bad;
    wire [255:0] load_fault;
    wire [1:0] loaded;
    wire [47:0] scales;
    wire [1:0] big;
    wire clamped;
    wire clamped_parity;
    wire bins_done;
    wire job_sound;
    wire job_taken;
    wire [31:0] beats;
    wire judge_faulty;
    wire [255:0] judge_fault;
    wire finish_start;
    wire [2047:0] finish_job;
    wire [3:0] finish_chunks;
    wire finish_parity;
    wire finish_big;
    wire finish_done;
    wire finish_faulty;
    wire [255:0] finish_fault;
    wire [57:0] status_word;
    wire [511:0] status_data;
    wire status_valid;
    wire write_ready;
    wire write_idle;
    wire write_failed;
    wire write_clear;
    wire [38:0] visit;
    wire visit_valid;
    wire visit_ready;
    wire word_valid;
    wire word_is_v;
    wire [10:0] word_addr;
    wire [511:0] word_data;
    wire top_valid;
    wire top_is_v;
    wire [7:0] top_addr;
    wire [4:0] top;
    wire k_row;
    wire v_row;
    wire k_release;
    wire v_release;
    wire f_valid;
    wire f_ready;
    wire [9:0] f_addr;
    wire [6:0] f_row;
    wire f_seen;
    wire [19:0] f_top;
    wire [2399:0] bins;
    wire [149:0] l_bins;

    wire flush;
    wire clear;
    wire restart = rst || clear;
    wire read_idle;
    wire tail_idle;

    list_side lists (
        .clk(clk),
        .rst(rst),
        .restart(restart),
        .list_start(list_start),
        .kv_register(kv_register),
        .ctl_register(ctl_register),
        .out_register(out_register),
        .list_accepted(list_accepted),
        .list_done(list_done),
        .flush(flush),
        .clear(clear),
        .readers_idle(read_idle && tail_idle),
        .ar_addr(ar_addr[255:192]),
        .ar_len(ar_len[31:24]),
        .ar_valid(ar_valid[3]),
        .ar_ready(ar_ready[3]),
        .r_data(r_data),
        .r_error(r_error),
        .r_valid(r_valid[3]),
        .job(job),
        .chunks(chunks),
        .half_last(half_last),
        .group(group),
        .parity(parity),
        .parity_big(parity_big),
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
        .load_start(load_start),
        .load_data(load_data),
        .load_valid(load_valid),
        .load_ready(load_ready),
        .load_done(load_done),
        .load_bad(load_bad),
        .load_fault(load_fault),
        .loaded(loaded),
        .scales(scales),
        .big(big),
        .clamped(clamped),
        .clamped_parity(clamped_parity),
        .bins_done(bins_done),
        .job_sound(job_sound),
        .job_taken(job_taken),
        .beats(beats),
        .judge_faulty(judge_faulty),
        .judge_fault(judge_fault),
        .finish_start(finish_start),
        .finish_job(finish_job),
        .finish_chunks(finish_chunks),
        .finish_parity(finish_parity),
        .finish_big(finish_big),
        .finish_done(finish_done),
        .finish_faulty(finish_faulty),
        .finish_fault(finish_fault),
        .status_word(status_word),
        .status_data(status_data),
        .status_valid(status_valid),
        .write_ready(write_ready),
        .write_idle(write_idle),
        .write_failed(write_failed),
        .write_clear(write_clear)
    );

    read_side reads (
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
        .job_sound(job_sound),
        .job_taken(job_taken),
        .beats(beats),
        .judge_faulty(judge_faulty),
        .judge_fault(judge_fault),
        .flush(flush),
        .idle(read_idle),
        .ar_addr({m_axi_kv_araddr, ar_addr[191:0]}),
        .ar_len({m_axi_kv_arlen, ar_len[23:0]}),
        .ar_valid({m_axi_kv_arvalid, ar_valid[2:0]}),
        .ar_ready({m_axi_kv_arready, ar_ready[2:0]}),
        .ctl_data(r_data),
        .ctl_error(r_error),
        .kv_data(m_axi_kv_rdata),
        .kv_error(m_axi_kv_rerror),
        .r_valid({m_axi_kv_rvalid, r_valid[2:0]}),
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
        .v_row(v_row),
        .k_release(k_release),
        .v_release(v_release)
    );

    compute_side compute (
        .clk(clk),
        .rst(restart),
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
        .v_row(v_row),
        .k_release(k_release),
        .v_release(v_release),
        .load_start(load_start),
        .job(job),
        .chunks(chunks),
        .half_last(half_last),
        .group(group),
        .parity(parity),
        .parity_big(parity_big),
        .load_data(load_data),
        .load_valid(load_valid),
        .load_ready(load_ready),
        .load_done(load_done),
        .load_bad(load_bad),
        .load_fault(load_fault),
        .loaded(loaded),
        .scales(scales),
        .big(big),
        .clamped(clamped),
        .clamped_parity(clamped_parity),
        .bins_done(bins_done),
        .f_valid(f_valid),
        .f_ready(f_ready),
        .f_addr(f_addr),
        .f_row(f_row),
        .f_seen(f_seen),
        .f_top(f_top),
        .bins(bins),
        .l_bins(l_bins)
    );

    write_side writes (
        .clk(clk),
        .rst(rst),
        .restart(restart),
        .start(finish_start),
        .job(finish_job),
        .chunks(finish_chunks),
        .parity(finish_parity),
        .big(finish_big),
        .done(finish_done),
        .faulty(finish_faulty),
        .fault(finish_fault),
        .f_valid(f_valid),
        .f_ready(f_ready),
        .f_addr(f_addr),
        .f_row(f_row),
        .bins(bins),
        .l_bins(l_bins),
        .seen(f_seen),
        .top(f_top),
        .status_word(status_word),
        .status_data(status_data),
        .status_valid(status_valid),
        .write_ready(write_ready),
        .clear(write_clear),
        .write_idle(write_idle),
        .write_failed(write_failed),
        .flush(flush),
        .idle(tail_idle),
        .ar_addr(ar_addr[319:256]),
        .ar_len(ar_len[39:32]),
        .ar_valid(ar_valid[4]),
        .ar_ready(ar_ready[4]),
        .r_data(r_data),
        .r_error(r_error),
        .r_valid(r_valid[4]),
        .m_axi_awaddr(m_axi_out_awaddr),
        .m_axi_awvalid(m_axi_out_awvalid),
        .m_axi_awready(m_axi_out_awready),
        .m_axi_wdata(m_axi_out_wdata),
        .m_axi_wvalid(m_axi_out_wvalid),
        .m_axi_wready(m_axi_out_wready),
        .m_axi_bresp(m_axi_out_bresp),
        .m_axi_bvalid(m_axi_out_bvalid),
        .m_axi_bready(m_axi_out_bready)
    );

endmodule

`resetall
