// SPDX-License-Identifier: Apache-2.0
// The kernel: exact attention over K and V in card memory (docs/kernel-contract.md). Three 512-bit AXI4 masters: kv and
// ctl read, out writes. Bus signals, reset and registers only; what it does begins in attend_engine.
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

    wire list_start;
    wire list_accepted;
    wire list_done;
    wire [63:0] kv;
    wire [63:0] ctl;
    wire [63:0] out;

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
        .kv(kv),
        .ctl(ctl),
        .out(out),
        .list_accepted(list_accepted),
        .list_done(list_done)
    );

    // readers of m_axi_ctl, see attend_engine
    wire [319:0] ar_addr;
    wire [39:0] ar_len;
    wire [4:0] ar_valid;
    wire [4:0] ar_ready;
    wire [4:0] r_valid;

    axi_read_arbiter #(
        .READERS(5)
    ) ctl_arbiter (
        .clk(clk),
        .rst(rst),
        .s_ar_addr(ar_addr),
        .s_ar_len(ar_len),
        .s_ar_valid(ar_valid),
        .s_ar_ready(ar_ready),
        .m_r_valid(r_valid),
        .m_axi_arid(m_axi_ctl_arid),
        .m_axi_araddr(m_axi_ctl_araddr),
        .m_axi_arlen(m_axi_ctl_arlen),
        .m_axi_arvalid(m_axi_ctl_arvalid),
        .m_axi_arready(m_axi_ctl_arready),
        .m_axi_rid(m_axi_ctl_rid),
        .m_axi_rvalid(m_axi_ctl_rvalid)
    );

    attend_engine engine (
        .clk(clk),
        .rst(rst),
        .list_start(list_start),
        .kv_register(kv),
        .ctl_register(ctl),
        .out_register(out),
        .list_accepted(list_accepted),
        .list_done(list_done),
        .m_axi_kv_araddr(m_axi_kv_araddr),
        .m_axi_kv_arlen(m_axi_kv_arlen),
        .m_axi_kv_arvalid(m_axi_kv_arvalid),
        .m_axi_kv_arready(m_axi_kv_arready),
        .m_axi_kv_rdata(m_axi_kv_rdata),
        .m_axi_kv_rerror(m_axi_kv_rresp[1]),
        .m_axi_kv_rvalid(m_axi_kv_rvalid),
        .ar_addr(ar_addr),
        .ar_len(ar_len),
        .ar_valid(ar_valid),
        .ar_ready(ar_ready),
        .r_data(m_axi_ctl_rdata),
        .r_error(m_axi_ctl_rresp[1]),
        .r_valid(r_valid),
        .m_axi_out_awaddr(m_axi_out_awaddr),
        .m_axi_out_awvalid(m_axi_out_awvalid),
        .m_axi_out_awready(m_axi_out_awready),
        .m_axi_out_wdata(m_axi_out_wdata),
        .m_axi_out_wvalid(m_axi_out_wvalid),
        .m_axi_out_wready(m_axi_out_wready),
        .m_axi_out_bresp(m_axi_out_bresp),
        .m_axi_out_bvalid(m_axi_out_bvalid),
        .m_axi_out_bready(m_axi_out_bready)
    );

    // readers ask only for what they can take
    assign m_axi_kv_arid = 3'd0;
    assign m_axi_kv_arsize = 3'd6;
    assign m_axi_kv_arburst = 2'b01;
    assign m_axi_kv_rready = !rst;
    assign m_axi_ctl_arsize = 3'd6;
    assign m_axi_ctl_arburst = 2'b01;
    assign m_axi_ctl_rready = !rst;
    assign m_axi_out_awid = 3'd0;
    assign m_axi_out_awlen = 8'd0;
    assign m_axi_out_awsize = 3'd6;
    assign m_axi_out_awburst = 2'b01;
    assign m_axi_out_wstrb = {64{1'b1}};
    assign m_axi_out_wlast = 1'b1;

endmodule

`resetall
