// SPDX-License-Identifier: Apache-2.0
// The kernel: exact attention over K and V in card memory (docs/kernel-contract.md). Ports and wiring only; the blocks
// are in docs/rtl.md. Three 512-bit AXI4 masters: kv and ctl read, out writes.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module nearkv_attend (
    input wire ap_clk,
    input wire ap_rst_n,
    output wire interrupt,

    input wire [11:0] s_axi_control_awaddr,
    input wire s_axi_control_awvalid,
    output wire s_axi_control_awready,
    input wire [31:0] s_axi_control_wdata,
    input wire [3:0] s_axi_control_wstrb,
    input wire s_axi_control_wvalid,
    output wire s_axi_control_wready,
    output wire [1:0] s_axi_control_bresp,
    output wire s_axi_control_bvalid,
    input wire s_axi_control_bready,
    input wire [11:0] s_axi_control_araddr,
    input wire s_axi_control_arvalid,
    output wire s_axi_control_arready,
    output wire [31:0] s_axi_control_rdata,
    output wire [1:0] s_axi_control_rresp,
    output wire s_axi_control_rvalid,
    input wire s_axi_control_rready,

    output wire [2:0] m_axi_kv_arid,
    output wire [63:0] m_axi_kv_araddr,
    output wire [7:0] m_axi_kv_arlen,
    output wire [2:0] m_axi_kv_arsize,
    output wire [1:0] m_axi_kv_arburst,
    output wire m_axi_kv_arvalid,
    input wire m_axi_kv_arready,
    input wire [2:0] m_axi_kv_rid,
    input wire [511:0] m_axi_kv_rdata,
    input wire [1:0] m_axi_kv_rresp,
    input wire m_axi_kv_rlast,
    input wire m_axi_kv_rvalid,
    output wire m_axi_kv_rready,

    output wire [2:0] m_axi_ctl_arid,
    output wire [63:0] m_axi_ctl_araddr,
    output wire [7:0] m_axi_ctl_arlen,
    output wire [2:0] m_axi_ctl_arsize,
    output wire [1:0] m_axi_ctl_arburst,
    output wire m_axi_ctl_arvalid,
    input wire m_axi_ctl_arready,
    input wire [2:0] m_axi_ctl_rid,
    input wire [511:0] m_axi_ctl_rdata,
    input wire [1:0] m_axi_ctl_rresp,
    input wire m_axi_ctl_rlast,
    input wire m_axi_ctl_rvalid,
    output wire m_axi_ctl_rready,

    output wire [2:0] m_axi_out_awid,
    output wire [63:0] m_axi_out_awaddr,
    output wire [7:0] m_axi_out_awlen,
    output wire [2:0] m_axi_out_awsize,
    output wire [1:0] m_axi_out_awburst,
    output wire m_axi_out_awvalid,
    input wire m_axi_out_awready,
    output wire [511:0] m_axi_out_wdata,
    output wire [63:0] m_axi_out_wstrb,
    output wire m_axi_out_wlast,
    output wire m_axi_out_wvalid,
    input wire m_axi_out_wready,
    input wire [2:0] m_axi_out_bid,
    input wire [1:0] m_axi_out_bresp,
    input wire m_axi_out_bvalid,
    output wire m_axi_out_bready
);

    // Pipelines without a reset of their own run empty while this one lasts.
    reg [6:0] reset_reg;
    wire rst = !reset_reg[6];
    wire clk = ap_clk;

    always @(posedge clk) begin
        if (!ap_rst_n) reset_reg <= 7'd0;
        else if (rst) reset_reg <= reset_reg + 7'd1;
    end

    // control
    wire list_start;
    wire list_accepted;
    wire list_done;
    wire [63:0] kv_register;
    wire [63:0] ctl_register;
    wire [63:0] out_register;
    wire [63:0] kv;
    wire [63:0] ctl;
    wire [63:0] out;
    wire flush;
    wire clear;
    wire restart = rst || clear;

    control_registers registers (
        .clk(clk),
        .rst(rst),
        .s_axil_awaddr(s_axi_control_awaddr),
        .s_axil_awvalid(s_axi_control_awvalid),
        .s_axil_awready(s_axi_control_awready),
        .s_axil_wdata(s_axi_control_wdata),
        .s_axil_wstrb(s_axi_control_wstrb),
        .s_axil_wvalid(s_axi_control_wvalid),
        .s_axil_wready(s_axi_control_wready),
        .s_axil_bresp(s_axi_control_bresp),
        .s_axil_bvalid(s_axi_control_bvalid),
        .s_axil_bready(s_axi_control_bready),
        .s_axil_araddr(s_axi_control_araddr),
        .s_axil_arvalid(s_axi_control_arvalid),
        .s_axil_arready(s_axi_control_arready),
        .s_axil_rdata(s_axi_control_rdata),
        .s_axil_rresp(s_axi_control_rresp),
        .s_axil_rvalid(s_axi_control_rvalid),
        .s_axil_rready(s_axi_control_rready),
        .interrupt(interrupt),
        .list_start(list_start),
        .kv(kv_register),
        .ctl(ctl_register),
        .out(out_register),
        .list_accepted(list_accepted),
        .list_done(list_done)
    );

    wire prepare_list;
    wire prepare_job;
    wire [12:0] prepare_index;
    wire prepare_alone;
    wire prepare_done;
    wire prepare_walkable;
    wire [1:0] loaded;
    wire prepare_faulty;
    wire [255:0] prepare_fault;
    wire [12:0] jobs;
    wire walk_valid;
    wire walk_parity;
    wire walk_ready;
    wire walk_failed;
    wire [57:0] walk_failed_word;
    wire job_sound;
    wire job_taken;
    wire [31:0] beats;
    wire judge_faulty;
    wire [255:0] judge_fault;
    wire bins_done;
    wire finish_start;
    wire finish_parity;
    wire finish_done;
    wire finish_faulty;
    wire [255:0] finish_fault;
    wire readers_idle;
    wire [57:0] status_word;
    wire [511:0] status_data;
    wire status_valid;
    wire write_ready;
    wire write_idle;
    wire write_failed;
    wire [57:0] write_failed_word;
    wire write_clear;
    reg [1:0] clamped_reg;

    list_control lists (
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
        .prepare_walkable(prepare_walkable),
        .prepare_done(prepare_done),
        .prepare_faulty(prepare_faulty),
        .prepare_fault(prepare_fault),
        .jobs(jobs),
        .loaded(loaded),
        .walk_valid(walk_valid),
        .walk_parity(walk_parity),
        .walk_ready(walk_ready),
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
        .readers_idle(readers_idle),
        .w_word(status_word),
        .w_data(status_data),
        .w_valid(status_valid),
        .w_ready(write_ready),
        .w_idle(write_idle),
        .w_failed(write_failed),
        .w_clear(write_clear)
    );

    // readers: 0 new rows, 1 checksums, 2 segments, 3 preparation, 4 tail copies; 5 is kv
    wire [6*58-1:0] cmd_word;
    wire [6*25-1:0] cmd_count;
    wire [5:0] cmd_valid;
    wire [5:0] cmd_ready;
    wire [6*512-1:0] read_data;
    wire [5:0] read_error;
    wire [5:0] read_valid;
    wire [5:0] read_ready;
    wire [5:0] read_idle;
    wire [6*64-1:0] ar_addr;
    wire [6*8-1:0] ar_len;
    wire [5:0] ar_valid;
    wire [5:0] ar_ready;
    wire [5:0] r_valid;

    genvar r;
    generate
        for (r = 0; r < 6; r = r + 1) begin : reader
            axi_read_stream #(
                .DEPTH(r == 0 || r == 5 ? 512 : r == 1 || r == 2 ? 16 : 64),
                .MAX_BURST(r == 1 || r == 2 ? 16 : 64)
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
                .s_r_data(r == 5 ? m_axi_kv_rdata : m_axi_ctl_rdata),
                .s_r_error(r == 5 ? m_axi_kv_rresp[1] : m_axi_ctl_rresp[1]),
                .s_r_valid(r_valid[r])
            );
        end
    endgenerate

    axi_read_arbiter #(
        .READERS(5)
    ) ctl_arbiter (
        .clk(clk),
        .rst(rst),
        .s_ar_addr(ar_addr[5*64-1:0]),
        .s_ar_len(ar_len[5*8-1:0]),
        .s_ar_valid(ar_valid[4:0]),
        .s_ar_ready(ar_ready[4:0]),
        .m_r_valid(r_valid[4:0]),
        .m_axi_arid(m_axi_ctl_arid),
        .m_axi_araddr(m_axi_ctl_araddr),
        .m_axi_arlen(m_axi_ctl_arlen),
        .m_axi_arvalid(m_axi_ctl_arvalid),
        .m_axi_arready(m_axi_ctl_arready),
        .m_axi_rid(m_axi_ctl_rid),
        .m_axi_rvalid(m_axi_ctl_rvalid)
    );

    assign readers_idle = read_idle == 6'b111111;
    assign m_axi_ctl_arsize = 3'd6;
    assign m_axi_ctl_arburst = 2'b01;
    assign m_axi_ctl_rready = !rst;
    assign m_axi_kv_arid = 3'd0;
    assign m_axi_kv_araddr = ar_addr[5*64+:64];
    assign m_axi_kv_arlen = ar_len[5*8+:8];
    assign m_axi_kv_arsize = 3'd6;
    assign m_axi_kv_arburst = 2'b01;
    assign m_axi_kv_arvalid = ar_valid[5];
    assign ar_ready[5] = m_axi_kv_arready;
    assign r_valid[5] = m_axi_kv_rvalid;
    assign m_axi_kv_rready = !rst;

    // preparation
    wire [2047:0] job;
    wire [3:0] chunks;
    wire half_last;
    wire prepared_big;
    wire limit_row_valid;
    wire [5:0] limit_row;
    wire [21:0] limit_low;
    wire [21:0] limit_high;
    wire q_write;
    wire [5:0] q_row;
    wire [2:0] q_chunk;
    wire q_half;
    wire [383:0] q_elements;
    wire q_shift_valid;
    wire [9:0] q_shift;
    wire o_valid;
    wire o_ready;
    wire [5:0] o_row;
    wire [3:0] o_word;
    wire o_half;
    wire [1:0] o_bin;
    wire [399:0] o_data;
    wire l_valid;
    wire l_ready;
    wire [5:0] l_row;
    wire [149:0] l_data;
    wire l_seen;
    wire [19:0] l_top;
    wire t_ready;
    wire [511:0] near_data;
    wire near_valid;
    wire near_ready;
    wire [511:0] near_data_queued;
    wire near_valid_queued;
    wire near_ready_queued;
    wire store_l_ready;

    job_prepare prepare (
        .clk(clk),
        .rst(restart),
        .kv(kv),
        .ctl(ctl),
        .out(out),
        .list_start(prepare_list),
        .job_start(prepare_job),
        .job_index(prepare_index),
        .alone(prepare_alone),
        .walkable(prepare_walkable),
        .done(prepare_done),
        .faulty(prepare_faulty),
        .fault(prepare_fault),
        .jobs(jobs),
        .job(job),
        .chunks(chunks),
        .half_last(half_last),
        .big(prepared_big),
        .cmd_word(cmd_word[3*58+:58]),
        .cmd_count(cmd_count[3*25+:25]),
        .cmd_valid(cmd_valid[3]),
        .cmd_ready(cmd_ready[3]),
        .s_data(read_data[3*512+:512]),
        .s_error(read_error[3]),
        .s_valid(read_valid[3]),
        .s_ready(read_ready[3]),
        .near_data(near_data),
        .near_valid(near_valid),
        .near_ready(near_ready),
        .limit_row_valid(limit_row_valid),
        .limit_row(limit_row),
        .limit_low(limit_low),
        .limit_high(limit_high),
        .limit_row_ready(t_ready),
        .q_valid(q_write),
        .q_row(q_row),
        .q_chunk(q_chunk),
        .q_half(q_half),
        .q_data(q_elements),
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

    assign l_ready = t_ready && store_l_ready;

    // what the array and job_finish need of the two jobs, by parity
    reg [2047:0] job_0_reg;
    reg [2047:0] job_1_reg;
    reg [3:0] chunks_0_reg;
    reg [3:0] chunks_1_reg;
    reg [1:0] big_reg;
    wire [47:0] scales = {job_1_reg[215:192], job_0_reg[215:192]};
    wire score_clamped;
    wire score_parity;

    always @(posedge clk) begin
        if (walk_valid && walk_ready) begin
            if (walk_parity) begin
                job_1_reg <= job;
                chunks_1_reg <= chunks;
                big_reg[1] <= prepared_big;
            end else begin
                job_0_reg <= job;
                chunks_0_reg <= chunks;
                big_reg[0] <= prepared_big;
            end
        end
        if (score_clamped) clamped_reg[score_parity] <= 1'b1;
        if (prepare_job) clamped_reg[prepare_index[0]] <= 1'b0;
    end

    // the walk
    wire [60:0] crc_entry;
    wire [19:0] crc_pages;
    wire crc_valid;
    wire crc_ready;
    wire [60:0] crc_entry_queued;
    wire [19:0] crc_pages_queued;
    wire crc_valid_queued;
    wire crc_ready_queued;
    wire [207:0] piece;
    wire piece_valid;
    wire piece_ready;
    wire [207:0] piece_queued;
    wire piece_valid_queued;
    wire piece_ready_queued;
    wire walk_idle;
    wire [146:0] work;
    wire work_valid;
    wire work_ready;
    wire [146:0] work_queued;
    wire work_valid_queued;
    wire work_ready_queued;
    wire [38:0] visit;
    wire visit_valid;
    wire visit_ready;
    wire [38:0] visit_queued;
    wire visit_valid_queued;
    wire visit_ready_queued;
    wire [202:0] record;
    wire record_valid;
    wire record_ready;
    wire [202:0] record_queued;
    wire record_valid_queued;
    wire record_ready_queued;
    wire [57:0] step_word;
    wire [24:0] step_count;

    segment_walk walk (
        .clk(clk),
        .rst(restart),
        .job(job),
        .chunks(chunks),
        .half_last(half_last),
        .parity(walk_parity),
        .job_valid(walk_valid),
        .job_ready(walk_ready),
        .near_data(near_data_queued),
        .near_valid(near_valid_queued),
        .near_ready(near_ready_queued),
        .cmd_word(cmd_word[2*58+:58]),
        .cmd_count(cmd_count[2*25+:25]),
        .cmd_valid(cmd_valid[2]),
        .cmd_ready(cmd_ready[2]),
        .far_data(read_data[2*512+:512]),
        .far_error(read_error[2]),
        .far_valid(read_valid[2]),
        .far_ready(read_ready[2]),
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
        .m_ready(near_ready_queued)
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
        .kv_cmd_valid(cmd_valid[5]),
        .kv_cmd_ready(cmd_ready[5]),
        .new_cmd_valid(cmd_valid[0]),
        .new_cmd_ready(cmd_ready[0]),
        .task_data(work),
        .task_valid(work_valid),
        .task_ready(work_ready),
        .visit(visit),
        .visit_valid(visit_valid),
        .visit_ready(visit_ready)
    );

    assign cmd_word[5*58+:58] = step_word;
    assign cmd_count[5*25+:25] = step_count;
    assign cmd_word[57:0] = step_word;
    assign cmd_count[24:0] = step_count;

    fifo #(
        .WIDTH(147),
        .DEPTH(16)
    ) work_queue (
        .clk(clk),
        .rst(restart),
        .s_data(work),
        .s_valid(work_valid),
        .s_ready(work_ready),
        .m_data(work_queued),
        .m_valid(work_valid_queued),
        .m_ready(work_ready_queued)
    );

    fifo #(
        .WIDTH(39),
        .DEPTH(4)
    ) visit_queue (
        .clk(clk),
        .rst(restart),
        .s_data(visit),
        .s_valid(visit_valid),
        .s_ready(visit_ready),
        .m_data(visit_queued),
        .m_valid(visit_valid_queued),
        .m_ready(visit_ready_queued)
    );

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

    block_writer writer (
        .clk(clk),
        .rst(restart),
        .task_data(work_queued),
        .task_valid(work_valid_queued),
        .task_ready(work_ready_queued),
        .kv_data(read_data[5*512+:512]),
        .kv_error(read_error[5]),
        .kv_valid(read_valid[5]),
        .kv_ready(read_ready[5]),
        .new_data(read_data[511:0]),
        .new_error(read_error[0]),
        .new_valid(read_valid[0]),
        .new_ready(read_ready[0]),
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

    wire [32:0] k_crc;
    wire k_crc_valid;
    wire k_crc_ready;
    wire [32:0] v_crc;
    wire v_crc_valid;
    wire v_crc_ready;
    wire [57:0] crc_error_word;

    checksum_fetch checksums (
        .clk(clk),
        .rst(restart),
        .s_entry(crc_entry_queued),
        .s_pages(crc_pages_queued),
        .s_valid(crc_valid_queued),
        .s_ready(crc_ready_queued),
        .cmd_word(cmd_word[58+:58]),
        .cmd_count(cmd_count[25+:25]),
        .cmd_valid(cmd_valid[1]),
        .cmd_ready(cmd_ready[1]),
        .r_data(read_data[512+:512]),
        .r_error(read_error[1]),
        .r_valid(read_valid[1]),
        .r_ready(read_ready[1]),
        .k_crc(k_crc),
        .k_valid(k_crc_valid),
        .k_ready(k_crc_ready),
        .v_crc(v_crc),
        .v_valid(v_crc_valid),
        .v_ready(v_crc_ready),
        .error_word(crc_error_word)
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

    // the array
    wire [21:0] unit;
    wire unit_valid;
    wire tile_ready;
    wire tile_taken;
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
    wire [1:0] op_tile;
    wire [3:0] op_chunks;
    wire op_end;
    wire op_empty;
    wire [511:0] k_data;
    wire [4:0] k_top;
    wire [511:0] v_data;
    wire [4:0] v_top;
    wire [7:0] scan_row;
    wire [4:0] scan_top;
    wire [7:0] scan_weight;
    wire [199:0] scan_whole;
    wire [199:0] array_mantissa;
    wire [199:0] array_whole;
    wire [447:0] array_descriptor;
    wire [447:0] bin_descriptor;
    wire [1:0] bin_tile;
    wire weights_done;

    array_sequencer sequencer (
        .clk(clk),
        .rst(restart),
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

    wire [4:0] unused_k_top;

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

    wire q_read;
    wire q_read_parity;
    wire [2:0] q_read_group;
    wire [2:0] q_read_chunk;
    wire [6143:0] q_data;

    query_buffer queries (
        .clk(clk),
        .w_parity(prepare_index[0]),
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

    array_core core (
        .clk(clk),
        .rst(restart),
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
        .w_mantissa(array_mantissa),
        .w_whole(array_whole),
        .descriptor(array_descriptor),
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

    wire table_parity;
    wire [2:0] table_group;
    wire [175:0] table_low;
    wire [175:0] table_high;
    wire [79:0] table_shift;

    row_table rows (
        .clk(clk),
        .w_parity(prepare_index[0]),
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

    wire weight_valid;
    wire weight_upper;
    wire [7:0] weight_addr;
    wire [99:0] weight_mantissa;
    wire [95:0] weight_whole;
    wire [3:0] weight_visible;

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
        .w_valid(weight_valid),
        .w_upper(weight_upper),
        .w_addr(weight_addr),
        .w_mantissa(weight_mantissa),
        .w_whole(weight_whole),
        .w_visible(weight_visible),
        .done(weights_done),
        .clamped(score_clamped),
        .clamped_parity(score_parity)
    );

    weight_buffer weights (
        .clk(clk),
        .w_valid(weight_valid),
        .w_upper(weight_upper),
        .w_addr(weight_addr),
        .w_mantissa(weight_mantissa),
        .w_whole(weight_whole),
        .w_visible(weight_visible),
        .r_valid(op_valid && op_is_v),
        .r_addr({op_weights, op_addr[9:3]}),
        .r_mantissa(array_mantissa),
        .r_whole(array_whole),
        .t_addr(scan_weight),
        .t_whole(scan_whole)
    );

    wire f_valid;
    wire f_ready;
    wire [9:0] f_addr;
    wire [6:0] f_row;
    wire f_seen;
    wire [19:0] f_top;
    wire [2399:0] bins;
    wire [149:0] l_bins;

    tile_top tops (
        .clk(clk),
        .rst(restart),
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
        .a_descriptor(array_descriptor),
        .b_tile(bin_tile),
        .b_descriptor(bin_descriptor),
        .w_parity(prepare_index[0]),
        .s_row(l_valid ? l_row : limit_row),
        .s_seen(l_valid && l_seen),
        .s_top(l_top),
        .s_valid(l_valid && store_l_ready || limit_row_valid),
        .s_ready(t_ready),
        .f_row(f_row),
        .f_seen(f_seen),
        .f_top(f_top)
    );

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

    bin_update update (
        .clk(clk),
        .rst(restart),
        .s_valid(sums_valid),
        .s_tag(sums_tag),
        .sums(sums),
        .weight_sums(weight_sums),
        .big(big_reg),
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
        .job_done(bins_done)
    );

    bin_address state_place (
        .parity(prepare_index[0]),
        .big(prepared_big),
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
        .s_l_valid(l_valid && t_ready),
        .s_l_ready(store_l_ready),
        .s_l_row({prepare_index[0], l_row}),
        .s_l_data(l_data),
        .f_valid(f_valid),
        .f_ready(f_ready),
        .f_addr(f_addr),
        .f_row(f_row),
        .data(bins),
        .l_data(l_bins)
    );

    // results
    wire [57:0] result_word;
    wire [511:0] result_data;
    wire result_valid;

    job_finish finish (
        .clk(clk),
        .rst(restart),
        .start(finish_start),
        .job(finish_parity ? job_1_reg : job_0_reg),
        .chunks(finish_parity ? chunks_1_reg : chunks_0_reg),
        .parity(finish_parity),
        .big(big_reg[finish_parity]),
        .done(finish_done),
        .faulty(finish_faulty),
        .fault(finish_fault),
        .cmd_word(cmd_word[4*58+:58]),
        .cmd_count(cmd_count[4*25+:25]),
        .cmd_valid(cmd_valid[4]),
        .cmd_ready(cmd_ready[4]),
        .r_data(read_data[4*512+:512]),
        .r_error(read_error[4]),
        .r_valid(read_valid[4]),
        .r_ready(read_ready[4]),
        .f_valid(f_valid),
        .f_ready(f_ready),
        .f_addr(f_addr),
        .f_row(f_row),
        .bins(bins),
        .l_bins(l_bins),
        .seen(f_seen),
        .top(f_top),
        .w_word(result_word),
        .w_data(result_data),
        .w_valid(result_valid),
        .w_ready(write_ready),
        .w_idle(write_idle),
        .w_failed(write_failed),
        .w_failed_word(write_failed_word)
    );

    axi_write writer_out (
        .clk(clk),
        .rst(rst),
        .s_word(status_valid ? status_word : result_word),
        .s_data(status_valid ? status_data : result_data),
        .s_valid(status_valid || result_valid),
        .s_ready(write_ready),
        .clear(write_clear),
        .idle(write_idle),
        .failed(write_failed),
        .failed_word(write_failed_word),
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

    assign m_axi_out_awid = 3'd0;
    assign m_axi_out_awlen = 8'd0;
    assign m_axi_out_awsize = 3'd6;
    assign m_axi_out_awburst = 2'b01;
    assign m_axi_out_wstrb = {64{1'b1}};
    assign m_axi_out_wlast = 1'b1;

endmodule

`resetall
