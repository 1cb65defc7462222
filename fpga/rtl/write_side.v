// SPDX-License-Identifier: Apache-2.0
// Results and statuses to memory: job_finish with its reader of new rows, and the writer that it shares with
// list_control. Wiring only.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module write_side (
    input wire clk,
    input wire rst,
    // clears all but reader and writer
    input wire restart,

    // see job_finish
    input wire start,
    input wire [2047:0] job,
    input wire [3:0] chunks,
    input wire parity,
    input wire big,
    output wire done,
    output wire faulty,
    output wire [255:0] fault,
    // see bin_words
    output wire f_valid,
    input wire f_ready,
    output wire [9:0] f_addr,
    output wire [6:0] f_row,
    input wire [2399:0] bins,
    input wire [149:0] l_bins,
    input wire seen,
    input wire [19:0] top,

    // statuses, see axi_write; no word is being written at the same time
    input wire [57:0] status_word,
    input wire [511:0] status_data,
    input wire status_valid,
    output wire write_ready,
    input wire clear,
    output wire write_idle,
    output wire write_failed,

    // reader on ctl
    input wire flush,
    output wire idle,
    output wire [63:0] ar_addr,
    output wire [7:0] ar_len,
    output wire ar_valid,
    input wire ar_ready,
    input wire [511:0] r_data,
    input wire r_error,
    input wire r_valid,

    output wire [63:0] m_axi_awaddr,
    output wire m_axi_awvalid,
    input wire m_axi_awready,
    output wire [511:0] m_axi_wdata,
    output wire m_axi_wvalid,
    input wire m_axi_wready,
    input wire [1:0] m_axi_bresp,
    input wire m_axi_bvalid,
    output wire m_axi_bready
);

    wire [57:0] cmd_word;
    wire [24:0] cmd_count;
    wire cmd_valid;
    wire cmd_ready;
    wire [511:0] tail_data;
    wire tail_error;
    wire tail_valid;
    wire tail_ready;
    wire [57:0] result_word;
    wire [511:0] result_data;
    wire result_valid;
    wire [57:0] failed_word;

    job_finish finish (
        .clk(clk),
        .rst(restart),
        .start(start),
        .job(job),
        .chunks(chunks),
        .parity(parity),
        .big(big),
        .done(done),
        .faulty(faulty),
        .fault(fault),
        .cmd_word(cmd_word),
        .cmd_count(cmd_count),
        .cmd_valid(cmd_valid),
        .cmd_ready(cmd_ready),
        .r_data(tail_data),
        .r_error(tail_error),
        .r_valid(tail_valid),
        .r_ready(tail_ready),
        .f_valid(f_valid),
        .f_ready(f_ready),
        .f_addr(f_addr),
        .f_row(f_row),
        .bins(bins),
        .l_bins(l_bins),
        .seen(seen),
        .top(top),
        .w_word(result_word),
        .w_data(result_data),
        .w_valid(result_valid),
        .w_ready(write_ready),
        .w_idle(write_idle),
        .w_failed(write_failed),
        .w_failed_word(failed_word)
    );

    axi_read_stream tail_reader (
        .clk(clk),
        .rst(rst),
        .flush(flush),
        .idle(idle),
        .s_cmd_word(cmd_word),
        .s_cmd_count(cmd_count),
        .s_cmd_valid(cmd_valid),
        .s_cmd_ready(cmd_ready),
        .m_data(tail_data),
        .m_error(tail_error),
        .m_valid(tail_valid),
        .m_ready(tail_ready),
        .m_ar_addr(ar_addr),
        .m_ar_len(ar_len),
        .m_ar_valid(ar_valid),
        .m_ar_ready(ar_ready),
        .s_r_data(r_data),
        .s_r_error(r_error),
        .s_r_valid(r_valid)
    );

    axi_write writer (
        .clk(clk),
        .rst(rst),
        .s_word(status_valid ? status_word : result_word),
        .s_data(status_valid ? status_data : result_data),
        .s_valid(status_valid || result_valid),
        .s_ready(write_ready),
        .clear(clear),
        .idle(write_idle),
        .failed(write_failed),
        .failed_word(failed_word),
        .m_axi_awaddr(m_axi_awaddr),
        .m_axi_awvalid(m_axi_awvalid),
        .m_axi_awready(m_axi_awready),
        .m_axi_wdata(m_axi_wdata),
        .m_axi_wvalid(m_axi_wvalid),
        .m_axi_wready(m_axi_wready),
        .m_axi_bresp(m_axi_bresp),
        .m_axi_bvalid(m_axi_bvalid),
        .m_axi_bready(m_axi_bready)
    );

endmodule

`resetall
