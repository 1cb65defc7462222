// SPDX-License-Identifier: Apache-2.0
// The kernel in a simulator with X: registers and memories start unknown, so does every byte of card memory that no
// buffer holds, and every signal towards the kernel while its VALID is low. Tells of each handshake that is unknown,
// and of each unknown address, length or word that the kernel offers. What memory holds at the end of a list is written
// to a file; whether that is right is judged outside.
//
// +lists=FILE names a text file, one list per line: file before, file after, kv, ctl, out pointer, and the address of a
// word that is answered with an error (all hexadecimal, 0: none).
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module four_state;

    localparam [63:0] BASE = 64'h4000000000;
    localparam WORDS = 16384;
    localparam LIMIT = 200000;

    reg clk = 1'b0;
    reg rst_n = 1'b0;
    // unknown signals count from here on
    reg watch = 1'b0;
    reg told = 1'b0;
    // the reset inside is over
    wire started = watch && dut.rst === 1'b0;

    reg [511:0] mem[0:WORDS-1];
    reg [63:0] bad_word;
    integer seed = 1;

    function dies;
        input [63:0] address;
        dies = address - BASE >= WORDS * 64 || address == bad_word;
    endfunction

    reg [11:0] awaddr = 12'bx;
    reg awvalid = 1'b0;
    wire awready;
    reg [31:0] wdata = 32'bx;
    reg [3:0] wstrb = 4'bx;
    reg wvalid = 1'b0;
    wire wready;
    wire [1:0] bresp;
    wire bvalid;
    reg bready = 1'b0;
    reg [11:0] araddr = 12'bx;
    reg arvalid = 1'b0;
    wire arready;
    wire [31:0] rdata;
    wire [1:0] rresp;
    wire rvalid;
    reg rready = 1'b0;
    wire interrupt;

    // kv (0) and ctl (1)
    wire [2:0] m_arid[0:1];
    wire [63:0] m_araddr[0:1];
    wire [7:0] m_arlen[0:1];
    wire [2:0] m_arsize[0:1];
    wire [1:0] m_arburst[0:1];
    wire [1:0] m_arvalid;
    wire [1:0] m_arready;
    wire [1:0] m_rvalid;
    wire [1:0] m_rready;
    wire [2:0] m_rid[0:1];
    wire [511:0] m_rdata[0:1];
    wire [1:0] m_rresp[0:1];
    wire [1:0] m_rlast;

    wire [2:0] o_awid;
    wire [63:0] o_awaddr;
    wire [7:0] o_awlen;
    wire [2:0] o_awsize;
    wire [1:0] o_awburst;
    wire o_awvalid;
    reg o_awready = 1'b0;
    wire [511:0] o_wdata;
    wire [63:0] o_wstrb;
    wire o_wlast;
    wire o_wvalid;
    reg o_wready = 1'b0;
    reg [1:0] o_bresp = 2'bx;
    reg o_bvalid = 1'b0;
    wire o_bready;

    nearkv_attend dut (
        .ap_clk(clk),
        .ap_rst_n(rst_n),
        .interrupt(interrupt),
        .s_axi_control_awaddr(awaddr),
        .s_axi_control_awvalid(awvalid),
        .s_axi_control_awready(awready),
        .s_axi_control_wdata(wdata),
        .s_axi_control_wstrb(wstrb),
        .s_axi_control_wvalid(wvalid),
        .s_axi_control_wready(wready),
        .s_axi_control_bresp(bresp),
        .s_axi_control_bvalid(bvalid),
        .s_axi_control_bready(bready),
        .s_axi_control_araddr(araddr),
        .s_axi_control_arvalid(arvalid),
        .s_axi_control_arready(arready),
        .s_axi_control_rdata(rdata),
        .s_axi_control_rresp(rresp),
        .s_axi_control_rvalid(rvalid),
        .s_axi_control_rready(rready),
        .m_axi_kv_arid(m_arid[0]),
        .m_axi_kv_araddr(m_araddr[0]),
        .m_axi_kv_arlen(m_arlen[0]),
        .m_axi_kv_arsize(m_arsize[0]),
        .m_axi_kv_arburst(m_arburst[0]),
        .m_axi_kv_arvalid(m_arvalid[0]),
        .m_axi_kv_arready(m_arready[0]),
        .m_axi_kv_rid(m_rid[0]),
        .m_axi_kv_rdata(m_rdata[0]),
        .m_axi_kv_rresp(m_rresp[0]),
        .m_axi_kv_rlast(m_rlast[0]),
        .m_axi_kv_rvalid(m_rvalid[0]),
        .m_axi_kv_rready(m_rready[0]),
        .m_axi_ctl_arid(m_arid[1]),
        .m_axi_ctl_araddr(m_araddr[1]),
        .m_axi_ctl_arlen(m_arlen[1]),
        .m_axi_ctl_arsize(m_arsize[1]),
        .m_axi_ctl_arburst(m_arburst[1]),
        .m_axi_ctl_arvalid(m_arvalid[1]),
        .m_axi_ctl_arready(m_arready[1]),
        .m_axi_ctl_rid(m_rid[1]),
        .m_axi_ctl_rdata(m_rdata[1]),
        .m_axi_ctl_rresp(m_rresp[1]),
        .m_axi_ctl_rlast(m_rlast[1]),
        .m_axi_ctl_rvalid(m_rvalid[1]),
        .m_axi_ctl_rready(m_rready[1]),
        .m_axi_out_awid(o_awid),
        .m_axi_out_awaddr(o_awaddr),
        .m_axi_out_awlen(o_awlen),
        .m_axi_out_awsize(o_awsize),
        .m_axi_out_awburst(o_awburst),
        .m_axi_out_awvalid(o_awvalid),
        .m_axi_out_awready(o_awready),
        .m_axi_out_wdata(o_wdata),
        .m_axi_out_wstrb(o_wstrb),
        .m_axi_out_wlast(o_wlast),
        .m_axi_out_wvalid(o_wvalid),
        .m_axi_out_wready(o_wready),
        .m_axi_out_bid(o_bvalid ? 3'd0 : 3'bx),
        .m_axi_out_bresp(o_bresp),
        .m_axi_out_bvalid(o_bvalid),
        .m_axi_out_bready(o_bready)
    );

    always #5 clk = !clk;

    // Readers: bursts in order, a pause now and then.
    genvar p;
    generate
        for (p = 0; p < 2; p = p + 1) begin : port
            reg [74:0] bursts[0:63];
            integer head = 0;
            integer tail = 0;
            reg ready = 1'b0;
            reg valid = 1'b0;
            reg last = 1'bx;
            reg [2:0] id = 3'bx;
            reg [1:0] resp = 2'bx;
            reg [511:0] data = 512'bx;
            reg [63:0] word;
            reg [7:0] more;

            assign m_arready[p] = ready;
            assign m_rvalid[p] = valid;
            assign m_rlast[p] = last;
            assign m_rid[p] = id;
            assign m_rresp[p] = resp;
            assign m_rdata[p] = data;

            always @(posedge clk) begin
                if (m_arvalid[p] === 1'b1 && ready) begin
                    bursts[tail%64] = {m_arid[p], m_arlen[p], m_araddr[p]};
                    tail = tail + 1;
                end
                ready <= tail - head < 60 && $random(seed) % 4 != 0;
                if (!valid || m_rready[p] === 1'b1) begin
                    if (head != tail && $random(seed) % 4 != 0) begin
                        {id, more, word} = bursts[head%64];
                        valid <= 1'b1;
                        last <= more == 8'd0;
                        resp <= dies(word) ? 2'b10 : 2'b00;
                        data <= dies(word) ? 512'bx : mem[(word-BASE)>>6];
                        if (more == 8'd0) head = head + 1;
                        else bursts[head%64] = {id, more - 8'd1, word + 64'd64};
                    end else begin
                        valid <= 1'b0;
                        last <= 1'bx;
                        id = 3'bx;
                        resp <= 2'bx;
                        data <= 512'bx;
                    end
                end
            end
        end
    endgenerate

    // Writer.
    reg [63:0] addresses[0:127];
    reg [511:0] words[0:127];
    integer asked = 0;
    integer given = 0;
    integer written = 0;
    integer answered = 0;
    reg [127:0] refused;

    always @(posedge clk) begin
        if (o_awvalid === 1'b1 && o_awready) begin
            addresses[asked%128] = o_awaddr;
            asked = asked + 1;
        end
        if (o_wvalid === 1'b1 && o_wready) begin
            words[given%128] = o_wdata;
            given = given + 1;
        end
        while (written < asked && written < given) begin
            refused[written%128] = dies(addresses[written%128]);
            if (!refused[written%128]) mem[(addresses[written%128]-BASE)>>6] = words[written%128];
            written = written + 1;
        end
        o_awready <= asked - answered < 100 && $random(seed) % 4 != 0;
        o_wready <= given - answered < 100 && $random(seed) % 4 != 0;
        if (!o_bvalid || o_bready === 1'b1) begin
            if (answered < written && $random(seed) % 2 == 0) begin
                o_bvalid <= 1'b1;
                o_bresp <= refused[answered%128] ? 2'b11 : 2'b00;
                answered = answered + 1;
            end else begin
                o_bvalid <= 1'b0;
                o_bresp <= 2'bx;
            end
        end
    end

    // Nothing that the kernel shows may be unknown; payload only while it is valid.
    always @(negedge clk)
    if (told) $finish;
    else if (watch) begin
        told = 1'b1;
        if (^{awready, wready, bvalid, arready, rvalid, interrupt, m_arvalid, m_rready, o_awvalid, o_wvalid, o_bready} === 1'bx)
            $display("UNKNOWN handshake: control %b %b %b %b %b, interrupt %b, ar %b, r %b, aw %b, w %b, b %b", awready,
                     wready, bvalid, arready, rvalid, interrupt, m_arvalid, m_rready, o_awvalid, o_wvalid, o_bready);
        else if (bvalid && ^bresp === 1'bx || rvalid && ^{rdata, rresp} === 1'bx)
            $display("UNKNOWN answer of a register: %h", rdata);
        else if (m_arvalid[0] && ^{m_arid[0], m_araddr[0], m_arlen[0], m_arsize[0], m_arburst[0]} === 1'bx)
            $display("UNKNOWN read of kv: %h, %h words", m_araddr[0], m_arlen[0]);
        else if (m_arvalid[1] && ^{m_arid[1], m_araddr[1], m_arlen[1], m_arsize[1], m_arburst[1]} === 1'bx)
            $display("UNKNOWN read of ctl: %h, %h words", m_araddr[1], m_arlen[1]);
        else if (o_awvalid && ^{o_awid, o_awaddr, o_awlen, o_awsize, o_awburst} === 1'bx)
            $display("UNKNOWN write: %h", o_awaddr);
        else if (o_wvalid && ^{o_wdata, o_wstrb, o_wlast} === 1'bx) $display("UNKNOWN word: %h", o_wdata);
        else told = 1'b0;
    end

    task write32;
        input [11:0] address;
        input [31:0] value;
        begin
            {awaddr, wdata, wstrb, awvalid, wvalid} <= {address, value, 4'hF, 2'b11};
            @(posedge clk);
            while (!(awready === 1'b1)) @(posedge clk);
            {awaddr, wdata, wstrb, awvalid, wvalid} <= {48'bx, 2'b00};
            bready <= 1'b1;
            @(posedge clk);
            while (!(bvalid === 1'b1)) @(posedge clk);
            bready <= 1'b0;
        end
    endtask

    task read32;
        input [11:0] address;
        output [31:0] value;
        begin
            {araddr, arvalid} <= {address, 1'b1};
            @(posedge clk);
            while (!(arready === 1'b1)) @(posedge clk);
            {araddr, arvalid} <= {12'bx, 1'b0};
            rready <= 1'b1;
            @(posedge clk);
            while (!(rvalid === 1'b1)) @(posedge clk);
            value = rdata;
            rready <= 1'b0;
        end
    endtask

    reg [1023:0] lists_name;
    reg [1023:0] before_name;
    reg [1023:0] after_name;
    reg [63:0] kv;
    reg [63:0] ctl;
    reg [63:0] out;
    reg [31:0] control;
    integer lists;
    integer count = 0;
    integer cycles = 0;
    integer i;

    always @(posedge clk) begin
        cycles = cycles + 1;
        if (cycles > LIMIT) begin
            $display("no end within %0d cycles", LIMIT);
            $finish;
        end
    end

    initial begin
        if (!$value$plusargs("lists=%s", lists_name)) $finish;
        lists = $fopen(lists_name, "r");
        repeat (2) @(posedge clk);
        watch = 1'b1;
        @(posedge clk);
        rst_n <= 1'b1;
        while ($fscanf(lists, "%s %s %h %h %h %h", before_name, after_name, kv, ctl, out, bad_word) == 6) begin
            for (i = 0; i < WORDS; i = i + 1) mem[i] = 512'bx;
            $readmemh(before_name, mem);
            write32(`NK_ADDR_KV, kv[31:0]);
            write32(`NK_ADDR_KV + 12'd4, kv[63:32]);
            write32(`NK_ADDR_CTL, ctl[31:0]);
            write32(`NK_ADDR_CTL + 12'd4, ctl[63:32]);
            write32(`NK_ADDR_OUT, out[31:0]);
            write32(`NK_ADDR_OUT + 12'd4, out[63:32]);
            write32(`NK_ADDR_GIER, 32'd1);
            write32(`NK_ADDR_IP_IER, 32'd1);
            write32(`NK_ADDR_CTRL, 32'd1);
            while (!(interrupt === 1'b1)) @(posedge clk);
            read32(`NK_ADDR_CTRL, control);
            if (control[1] !== 1'b1) $display("interrupt without DONE");
            write32(`NK_ADDR_IP_ISR, 32'd1);
            write32(`NK_ADDR_CTRL, 32'd16);
            $writememh(after_name, mem);
            count = count + 1;
        end
        $display("ENDED %0d lists, %0d cycles", count, cycles);
        $finish;
    end

endmodule

`resetall
