// SPDX-License-Identifier: Apache-2.0
// The kernel's ports, whatever its compute modules do (they are cut: their outputs do anything in each cycle): rules of
// AXI4 on the three masters and of AXI4-Lite on the control port. That all answers fit is proven of axi_read_stream.
`default_nettype none

module nearkv_attend_properties (
    input wire clk,
    input wire rst_n,
    input wire [11:0] awaddr,
    input wire awvalid,
    input wire [31:0] wdata,
    input wire [3:0] wstrb,
    input wire wvalid,
    input wire bready,
    input wire [11:0] araddr,
    input wire arvalid,
    input wire rready,
    input wire kv_arready,
    input wire kv_rvalid,
    input wire ctl_arready,
    input wire [2:0] ctl_rid,
    input wire ctl_rvalid,
    input wire out_awready,
    input wire out_wready,
    input wire [1:0] out_bresp,
    input wire out_bvalid
);

    wire awready;
    wire wready;
    wire bvalid;
    wire arready;
    wire [31:0] rdata;
    wire rvalid;
    wire [2:0] kv_arid;
    wire [63:0] kv_araddr;
    wire [7:0] kv_arlen;
    wire [2:0] kv_arsize;
    wire [1:0] kv_arburst;
    wire kv_arvalid;
    wire kv_rready;
    wire [2:0] ctl_arid;
    wire [63:0] ctl_araddr;
    wire [7:0] ctl_arlen;
    wire [2:0] ctl_arsize;
    wire [1:0] ctl_arburst;
    wire ctl_arvalid;
    wire ctl_rready;
    wire [63:0] out_awaddr;
    wire [7:0] out_awlen;
    wire [2:0] out_awsize;
    wire [1:0] out_awburst;
    wire out_awvalid;
    wire [511:0] out_wdata;
    wire [63:0] out_wstrb;
    wire out_wlast;
    wire out_wvalid;

    nearkv_attend dut (
        .ap_clk(clk),
        .ap_rst_n(rst_n),
        .interrupt(),
        .s_axi_control_awaddr(awaddr),
        .s_axi_control_awvalid(awvalid),
        .s_axi_control_awready(awready),
        .s_axi_control_wdata(wdata),
        .s_axi_control_wstrb(wstrb),
        .s_axi_control_wvalid(wvalid),
        .s_axi_control_wready(wready),
        .s_axi_control_bresp(),
        .s_axi_control_bvalid(bvalid),
        .s_axi_control_bready(bready),
        .s_axi_control_araddr(araddr),
        .s_axi_control_arvalid(arvalid),
        .s_axi_control_arready(arready),
        .s_axi_control_rdata(rdata),
        .s_axi_control_rresp(),
        .s_axi_control_rvalid(rvalid),
        .s_axi_control_rready(rready),
        .m_axi_kv_arid(kv_arid),
        .m_axi_kv_araddr(kv_araddr),
        .m_axi_kv_arlen(kv_arlen),
        .m_axi_kv_arsize(kv_arsize),
        .m_axi_kv_arburst(kv_arburst),
        .m_axi_kv_arvalid(kv_arvalid),
        .m_axi_kv_arready(kv_arready),
        .m_axi_kv_rid(3'd0),
        .m_axi_kv_rdata(512'd0),
        .m_axi_kv_rresp(2'd0),
        .m_axi_kv_rlast(1'b0),
        .m_axi_kv_rvalid(kv_rvalid),
        .m_axi_kv_rready(kv_rready),
        .m_axi_ctl_arid(ctl_arid),
        .m_axi_ctl_araddr(ctl_araddr),
        .m_axi_ctl_arlen(ctl_arlen),
        .m_axi_ctl_arsize(ctl_arsize),
        .m_axi_ctl_arburst(ctl_arburst),
        .m_axi_ctl_arvalid(ctl_arvalid),
        .m_axi_ctl_arready(ctl_arready),
        .m_axi_ctl_rid(ctl_rid),
        .m_axi_ctl_rdata(512'd0),
        .m_axi_ctl_rresp(2'd0),
        .m_axi_ctl_rlast(1'b0),
        .m_axi_ctl_rvalid(ctl_rvalid),
        .m_axi_ctl_rready(ctl_rready),
        .m_axi_out_awid(),
        .m_axi_out_awaddr(out_awaddr),
        .m_axi_out_awlen(out_awlen),
        .m_axi_out_awsize(out_awsize),
        .m_axi_out_awburst(out_awburst),
        .m_axi_out_awvalid(out_awvalid),
        .m_axi_out_awready(out_awready),
        .m_axi_out_wdata(out_wdata),
        .m_axi_out_wstrb(out_wstrb),
        .m_axi_out_wlast(out_wlast),
        .m_axi_out_wvalid(out_wvalid),
        .m_axi_out_wready(out_wready),
        .m_axi_out_bid(3'd0),
        .m_axi_out_bresp(out_bresp),
        .m_axi_out_bvalid(out_bvalid),
        .m_axi_out_bready()
    );

    // cycles since the last one with reset, up to 3
    reg [1:0] up = 2'd0;
    // cycles of reset in a row, up to 3
    reg [1:0] down = 2'd0;
    reg kv_waits;
    reg [74:0] kv_before;
    reg ctl_waits;
    reg [74:0] ctl_before;
    reg aw_waits;
    reg [63:0] aw_before;
    reg w_waits;
    reg [511:0] w_before;
    reg b_waits;
    reg r_waits;
    reg [31:0] r_before;

    wire [74:0] kv_ar = {kv_arid, kv_araddr, kv_arlen};
    wire [74:0] ctl_ar = {ctl_arid, ctl_araddr, ctl_arlen};
    // the reset is registered once: what stands may fall in the two cycles after it begins
    wire live = rst_n && up != 0;

    always @(posedge clk) begin
        up <= !rst_n ? 2'd0 : up == 2'd3 ? 2'd3 : up + 2'd1;
        down <= rst_n ? 2'd0 : down == 2'd3 ? 2'd3 : down + 2'd1;
        kv_waits <= live && kv_arvalid && !kv_arready;
        kv_before <= kv_ar;
        ctl_waits <= live && ctl_arvalid && !ctl_arready;
        ctl_before <= ctl_ar;
        aw_waits <= live && out_awvalid && !out_awready;
        aw_before <= out_awaddr;
        w_waits <= live && out_wvalid && !out_wready;
        w_before <= out_wdata;
        b_waits <= live && bvalid && !bready;
        r_waits <= live && rvalid && !rready;
        r_before <= rdata;
    end

    always @* begin
        if (down == 0 && up == 0) assume (!rst_n);
        if (live) begin
            if (kv_waits) assert (kv_arvalid && kv_ar == kv_before);
            if (ctl_waits) assert (ctl_arvalid && ctl_ar == ctl_before);
            if (aw_waits) assert (out_awvalid && out_awaddr == aw_before);
            if (w_waits) assert (out_wvalid && out_wdata == w_before);
            if (b_waits) assert (bvalid);
            if (r_waits) assert (rvalid && rdata == r_before);
        end
        if (up == 2'd3) begin
            if (kv_arvalid) begin
                assert (kv_araddr[5:0] == 0 && kv_arlen < 64 && kv_araddr[11:6] + kv_arlen[6:0] <= 7'd63);
                assert (kv_arid == 0);
            end
            if (ctl_arvalid) begin
                assert (ctl_araddr[5:0] == 0 && ctl_arlen < 64 && ctl_araddr[11:6] + ctl_arlen[6:0] <= 7'd63);
                assert (ctl_arid < 5);
            end
            if (out_awvalid) assert (out_awaddr[5:0] == 0 && out_awlen == 0);
            assert (!out_wvalid || out_wlast && &out_wstrb);
            assert (kv_arsize == 6 && ctl_arsize == 6 && out_awsize == 6);
            assert (kv_arburst == 1 && ctl_arburst == 1 && out_awburst == 1);
        end
        // in reset nothing is asked or answered, from its third cycle on
        if (down[1]) begin
            assert (!kv_arvalid && !ctl_arvalid && !out_awvalid && !out_wvalid && !bvalid && !rvalid);
            assert (!kv_rready && !ctl_rready && !awready && !wready && !arready);
        end
    end

    always @* begin
        cover (kv_arvalid && kv_arready && kv_arlen == 63);
        cover (ctl_arvalid && ctl_arready && ctl_arid == 4);
        cover (aw_waits && !w_waits && live && up == 3);
        cover (b_waits && r_waits && live);
        cover (kv_arvalid && !rst_n);
    end

endmodule
