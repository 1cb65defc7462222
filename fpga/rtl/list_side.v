// SPDX-License-Identifier: Apache-2.0
// A list and its jobs: what is done when, the descriptors and their checks, and what the others need of the two jobs at
// hand.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module list_side (
    input wire clk,
    input wire rst,
    // clears all but reader and list
    input wire restart,

    // see control_registers
    input wire list_start,
    input wire [63:0] kv_register,
    input wire [63:0] ctl_register,
    input wire [63:0] out_register,
    output wire list_accepted,
    output wire list_done,

    // see list_control: readers drop what they have, everything behind them starts anew
    output wire flush,
    output wire clear,
    input wire readers_idle,

    // reader on ctl
    output wire [63:0] ar_addr,
    output wire [7:0] ar_len,
    output wire ar_valid,
    input wire ar_ready,
    input wire [511:0] r_data,
    input wire r_error,
    input wire r_valid,

    // the job that is prepared and handed to the walk
    output wire [2047:0] job,
    output wire [3:0] chunks,
    output wire half_last,
    output wire [6:0] group,
    output wire parity,
    output wire parity_big,
    // see segment_walk
    output wire prepare_sound,
    output wire walk_valid,
    input wire walk_ready,
    output wire walk_refused,
    input wire walk_failed,
    input wire [57:0] walk_failed_word,
    output wire [511:0] near_data,
    output wire near_valid,
    input wire near_ready,
    output wire near_sound,
    // see job_load
    output wire [2:0] load_start,
    output wire [511:0] load_data,
    output wire load_valid,
    input wire load_ready,
    input wire load_done,
    input wire load_bad,
    input wire [255:0] load_fault,
    // of both jobs: q is there, scale mantissa, bins fill the store
    output wire [1:0] loaded,
    output wire [47:0] scales,
    output wire [1:0] big,
    input wire clamped,
    input wire clamped_parity,
    input wire bins_done,

    // see step_judge
    input wire job_sound,
    output wire job_taken,
    input wire [31:0] beats,
    input wire judge_faulty,
    input wire [255:0] judge_fault,

    // see job_finish
    output wire finish_start,
    output wire [2047:0] finish_job,
    output wire [3:0] finish_chunks,
    output wire finish_parity,
    output wire finish_big,
    input wire finish_done,
    input wire finish_faulty,
    input wire [255:0] finish_fault,
    // statuses, see axi_write
    output wire [57:0] status_word,
    output wire [511:0] status_data,
    output wire status_valid,
    input wire write_ready,
    input wire write_idle,
    input wire write_failed,
    output wire write_clear
);

    wire prepare_list;
    wire prepare_alone;
    wire prepare_walkable;
    wire prepare_done;
    wire prepare_faulty;
    wire [255:0] prepare_fault;
    wire [12:0] jobs;
    wire walk_parity;
    wire [57:0] cmd_word;
    wire [24:0] cmd_count;
    wire cmd_valid;
    wire cmd_ready;
    wire read_error;
    wire read_ready;

    wire [63:0] kv;
    wire [63:0] ctl;
    wire [63:0] out;
    wire prepare_job;
    wire prepare_free;
    wire prepare_enters;
    wire [12:0] prepare_index;
    wire idle;
    // by parity
    reg [2047:0] job_0_reg;
    reg [2047:0] job_1_reg;
    reg [3:0] chunks_0_reg;
    reg [3:0] chunks_1_reg;
    reg [1:0] big_reg;
    reg [1:0] clamped_reg;

    assign parity = prepare_index[0];
    assign scales = {job_1_reg[`NK_JOB_SCALE_MANTISSA_LSB+:24], job_0_reg[`NK_JOB_SCALE_MANTISSA_LSB+:24]};
    assign big = big_reg;
    assign finish_job = finish_parity ? job_1_reg : job_0_reg;
    assign finish_chunks = finish_parity ? chunks_1_reg : chunks_0_reg;
    assign finish_big = big_reg[finish_parity];

    always @(posedge clk) begin
        if (walk_valid && walk_ready) begin
            if (walk_parity) begin
                job_1_reg <= job;
                chunks_1_reg <= chunks;
                big_reg[1] <= parity_big;
            end else begin
                job_0_reg <= job;
                chunks_0_reg <= chunks;
                big_reg[0] <= parity_big;
            end
        end
        if (clamped) clamped_reg[clamped_parity] <= 1'b1;
        if (prepare_enters) clamped_reg[parity] <= 1'b0;
    end

    list_control control (
        .clk(clk),
        .rst(rst),
        .list_start(list_start),
        .kv_register(kv_register),
        .ctl_register(ctl_register),
        .out_register(out_register),
        .list_accepted(list_accepted),
        .list_done(list_done),
        .kv(kv),
        .ctl(ctl),
        .out(out),
        .prepare_list(prepare_list),
        .prepare_job(prepare_job),
        .prepare_index(prepare_index),
        .prepare_alone(prepare_alone),
        .prepare_free(prepare_free),
        .prepare_enters(prepare_enters),
        .prepare_walkable(prepare_walkable),
        .prepare_done(prepare_done),
        .prepare_faulty(prepare_faulty),
        .prepare_fault(prepare_fault),
        .jobs(jobs),
        .loaded(loaded),
        .walk_valid(walk_valid),
        .walk_parity(walk_parity),
        .walk_ready(walk_ready),
        .walk_refused(walk_refused),
        .walk_failed(walk_failed),
        .walk_failed_word(walk_failed_word),
        .job_sound(job_sound),
        .job_taken(job_taken),
        .beats(beats),
        .judge_faulty(judge_faulty),
        .judge_fault(judge_fault),
        .bins_done(bins_done),
        .finish_start(finish_start),
        .finish_parity(finish_parity),
        .finish_done(finish_done),
        .finish_faulty(finish_faulty),
        .finish_fault(finish_fault),
        .clamped(clamped_reg),
        .flush(flush),
        .clear(clear),
        .readers_idle(readers_idle && idle),
        .w_word(status_word),
        .w_data(status_data),
        .w_valid(status_valid),
        .w_ready(write_ready),
        .w_idle(write_idle),
        .w_failed(write_failed),
        .w_clear(write_clear)
    );

    job_prepare prepare (
        .clk(clk),
        .rst(restart),
        .kv(kv),
        .ctl(ctl),
        .out(out),
        .list_start(prepare_list),
        .job_start(prepare_job),
        .job_index(prepare_index),
        .free(prepare_free),
        .alone(prepare_alone),
        .enters(prepare_enters),
        .done(prepare_done),
        .faulty(prepare_faulty),
        .fault(prepare_fault),
        .jobs(jobs),
        .walkable(prepare_walkable),
        .sound(prepare_sound),
        .job(job),
        .chunks(chunks),
        .half_last(half_last),
        .group(group),
        .big(parity_big),
        .cmd_word(cmd_word),
        .cmd_count(cmd_count),
        .cmd_valid(cmd_valid),
        .cmd_ready(cmd_ready),
        .s_data(load_data),
        .s_error(read_error),
        .s_valid(load_valid),
        .s_ready(read_ready),
        .near_data(near_data),
        .near_valid(near_valid),
        .near_ready(near_ready),
        .near_sound(near_sound),
        .load_start(load_start),
        .load_ready(load_ready),
        .load_done(load_done),
        .load_bad(load_bad),
        .load_fault(load_fault)
    );

    axi_read_stream reader (
        .clk(clk),
        .rst(rst),
        .flush(flush),
        .idle(idle),
        .s_cmd_word(cmd_word),
        .s_cmd_count(cmd_count),
        .s_cmd_valid(cmd_valid),
        .s_cmd_ready(cmd_ready),
        .m_data(load_data),
        .m_error(read_error),
        .m_valid(load_valid),
        .m_ready(read_ready),
        .m_ar_addr(ar_addr),
        .m_ar_len(ar_len),
        .m_ar_valid(ar_valid),
        .m_ar_ready(ar_ready),
        .s_r_data(r_data),
        .s_r_error(r_error),
        .s_r_valid(r_valid)
    );

endmodule

`resetall
