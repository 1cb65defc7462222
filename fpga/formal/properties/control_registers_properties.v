// SPDX-License-Identifier: Apache-2.0
// control_registers: rules of AXI4-Lite (one answer per request, none without, still until taken) and of ap_ctrl_chain
// (IDLE drops at START, a START while busy is held once, DONE stays until CONTINUE), and each byte of the arguments is
// what was last written to it. The lists behind it: accepted once after `list_start`, done after that.
`default_nettype none
`include "regmap.vh"

module control_registers_properties (
    input wire clk,
    input wire rst,
    input wire [11:0] awaddr,
    input wire awvalid,
    input wire [31:0] wdata,
    input wire [3:0] wstrb,
    input wire wvalid,
    input wire bready,
    input wire [11:0] araddr,
    input wire arvalid,
    input wire rready,
    input wire list_accepted,
    input wire list_done,
    // the byte of {out, ctl, kv} that is followed, chosen in reset
    input wire [4:0] chosen
);

    reg [4:0] byte_index;

    wire awready;
    wire wready;
    wire [1:0] bresp;
    wire bvalid;
    wire arready;
    wire [31:0] rdata;
    wire [1:0] rresp;
    wire rvalid;
    wire interrupt;
    wire list_start;
    wire [63:0] kv;
    wire [63:0] ctl;
    wire [63:0] out;

    control_registers dut (
        .clk(clk),
        .rst(rst),
        .s_axil_awaddr(awaddr),
        .s_axil_awvalid(awvalid),
        .s_axil_awready(awready),
        .s_axil_wdata(wdata),
        .s_axil_wstrb(wstrb),
        .s_axil_wvalid(wvalid),
        .s_axil_wready(wready),
        .s_axil_bresp(bresp),
        .s_axil_bvalid(bvalid),
        .s_axil_bready(bready),
        .s_axil_araddr(araddr),
        .s_axil_arvalid(arvalid),
        .s_axil_arready(arready),
        .s_axil_rdata(rdata),
        .s_axil_rresp(rresp),
        .s_axil_rvalid(rvalid),
        .s_axil_rready(rready),
        .interrupt(interrupt),
        .list_start(list_start),
        .kv(kv),
        .ctl(ctl),
        .out(out),
        .list_accepted(list_accepted),
        .list_done(list_done)
    );

    reg started = 1'b0;
    reg after_reset;
    // answers owed
    reg write_owed;
    reg read_owed;
    reg b_waits;
    reg r_waits;
    reg [31:0] rdata_before;
    // a START that no list has answered; a list between its start and its end; its acceptance; a DONE that stands
    reg asked;
    reg runs;
    reg accepted;
    reg done;
    reg ready;
    // what CTRL is read as, when it was the register that the answer on offer read
    reg ctrl_read;
    reg [3:0] ctrl_expected;
    reg [7:0] last_byte;

    wire took_write = awvalid && awready;
    wire took_read = arvalid && arready;
    wire ctrl_write = took_write && awaddr[11:2] == `NK_ADDR_CTRL / 4 && wstrb[0];
    wire reads_ctrl = took_read && araddr[11:2] == `NK_ADDR_CTRL / 4;
    wire [191:0] chosen_on_top = {out, ctl, kv} >> {byte_index, 3'd0};
    wire [31:0] written_on_top = wdata >> {byte_index[1:0], 3'd0};
    wire [11:0] word_addr = byte_index[4:3] == 2'd0 ? `NK_ADDR_KV : byte_index[4:3] == 2'd1 ? `NK_ADDR_CTL : `NK_ADDR_OUT;
    wire [11:0] byte_addr = word_addr + {9'd0, byte_index[2:0]};
    wire byte_write = took_write && awaddr[11:2] == byte_addr[11:2] && wstrb[byte_addr[1:0]];

    always @(posedge clk) begin
        started <= 1'b1;
        after_reset <= rst;
        write_owed <= write_owed && !(bvalid && bready) || took_write;
        read_owed <= read_owed && !(rvalid && rready) || took_read;
        b_waits <= bvalid && !bready;
        r_waits <= rvalid && !rready;
        rdata_before <= rdata;

        if (list_start) runs <= 1'b1;
        if (list_accepted) begin
            asked <= 1'b0;
            accepted <= 1'b1;
            ready <= 1'b1;
        end else if (reads_ctrl) ready <= 1'b0;
        if (list_done) begin
            runs <= 1'b0;
            accepted <= 1'b0;
            done <= 1'b1;
        end else if (ctrl_write && wdata[4]) done <= 1'b0;
        if (ctrl_write && wdata[0]) asked <= 1'b1;
        if (took_read) begin
            ctrl_read <= reads_ctrl;
            ctrl_expected <= {ready, !asked && !runs, done, asked};
        end
        if (byte_write) last_byte <= written_on_top[7:0];
        if (rst) begin
            byte_index <= chosen;
            write_owed <= 1'b0;
            read_owed <= 1'b0;
            b_waits <= 1'b0;
            r_waits <= 1'b0;
            asked <= 1'b0;
            runs <= 1'b0;
            accepted <= 1'b0;
            done <= 1'b0;
            ready <= 1'b0;
            last_byte <= 8'd0;
        end
    end

    always @* begin
        assume (chosen < 24);
        if (!started) assume (rst);
        // what list_control keeps to
        assume (!list_accepted || runs && !accepted);
        assume (!list_done || runs && (accepted || list_accepted));
        if (started && rst) assert (!awready && !wready && !arready);
        if (started && !rst) begin
            assert (byte_index < 24);
            assert (awready == wready);
            assert (!awready || awvalid && wvalid);
            assert (!arready || arvalid);
            assert (bvalid == write_owed);
            assert (rvalid == read_owed);
            assert (!took_write || !write_owed || bready);
            assert (!took_read || !read_owed || rready);
            assert (!b_waits || bvalid);
            assert (!r_waits || rvalid && rdata == rdata_before);
            assert (bresp == 2'b00 && rresp == 2'b00);
            // a request waits only for the answer before it
            assert (!(awvalid && wvalid && (!bvalid || bready)) || took_write);
            assert (!(arvalid && (!rvalid || rready)) || took_read);

            if (rvalid && ctrl_read) assert (rdata == {28'd0, ctrl_expected});
            // a list starts when one was asked for, none runs and the DONE before has been acknowledged; and then at once
            assert (list_start == (asked && !runs && !done));
            assert (!runs || !done);
            if (after_reset) assert (!interrupt);
            assert (chosen_on_top[7:0] == last_byte);
        end
    end

    reg twice;
    always @(posedge clk) twice <= !rst && (twice || runs && accepted && ctrl_write && wdata[0]);

    always @* begin
        if (started && !rst) begin
            cover (twice && list_start);
            cover (interrupt);
            cover (b_waits && r_waits);
            cover (rvalid && ctrl_read && rdata[3:0] == 4'b1110);
        end
    end

endmodule
