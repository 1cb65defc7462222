// SPDX-License-Identifier: Apache-2.0
// axi_write against a memory that answers a word after it has its address and its data: AW and W stand still until
// accepted, each word goes out once and in order, no more are in flight than are counted, the first failure is kept.
`default_nettype none

module axi_write_properties #(
    parameter DEPTH = 64,
    // bits of data and address that are compared; the module treats all alike
    parameter SEEN = 2
) (
    input wire clk,
    input wire rst,
    input wire [57:0] s_word,
    input wire [511:0] s_data,
    input wire s_valid,
    input wire clear,
    input wire awready,
    input wire wready,
    input wire [1:0] bresp,
    input wire bvalid,
    // follow the word that is accepted now
    input wire mark
);

    localparam BITS = $clog2(DEPTH) + 2;

    wire s_ready;
    wire idle;
    wire failed;
    wire [57:0] failed_word;
    wire [63:0] awaddr;
    wire awvalid;
    wire [511:0] wdata;
    wire wvalid;
    wire bready;
    wire [$clog2(DEPTH):0] probe_count;
    wire [$clog2(DEPTH):0] probe_flying;

    axi_write #(
        .DEPTH(DEPTH)
    ) dut (
        .clk(clk),
        .rst(rst),
        .s_word(s_word),
        .s_data(s_data),
        .s_valid(s_valid),
        .s_ready(s_ready),
        .clear(clear),
        .idle(idle),
        .failed(failed),
        .failed_word(failed_word),
        .m_axi_awaddr(awaddr),
        .m_axi_awvalid(awvalid),
        .m_axi_awready(awready),
        .m_axi_wdata(wdata),
        .m_axi_wvalid(wvalid),
        .m_axi_wready(wready),
        .m_axi_bresp(bresp),
        .m_axi_bvalid(bvalid),
        .m_axi_bready(bready)
    );

    reg started = 1'b0;
    // words taken and not yet answered; of them, words whose address, whose data the memory has
    reg [BITS-1:0] flying;
    reg [BITS-1:0] has_addr;
    reg [BITS-1:0] has_data;
    reg aw_waits;
    reg w_waits;
    reg b_waits;
    reg took;
    reg had_flying;
    reg [SEEN-1:0] addr_before;
    reg [SEEN-1:0] data_before;
    reg [SEEN-1:0] word_taken;
    reg [SEEN-1:0] data_taken;
    reg marked;
    reg [SEEN-1:0] marked_word;
    reg [BITS-1:0] ahead;
    // the followed word was the first that failed since `clear`
    reg first;
    reg [SEEN-1:0] first_word;
    reg any_failed;

    wire take = s_valid && s_ready;
    wire answer = bvalid && bready;
    wire [BITS-1:0] one = {{(BITS - 1) {1'b0}}, 1'b1};
    wire fails = answer && bresp[1] && (!any_failed || clear);

    always @(posedge clk) begin
        started <= 1'b1;
        flying <= flying + (take ? one : {BITS{1'b0}}) - (answer ? one : {BITS{1'b0}});
        has_addr <= has_addr + (awvalid && awready ? one : {BITS{1'b0}}) - (answer ? one : {BITS{1'b0}});
        has_data <= has_data + (wvalid && wready ? one : {BITS{1'b0}}) - (answer ? one : {BITS{1'b0}});
        aw_waits <= awvalid && !awready;
        w_waits <= wvalid && !wready;
        b_waits <= bvalid && !bready;
        took <= take;
        had_flying <= flying != (answer ? one : {BITS{1'b0}});
        addr_before <= awaddr[6+:SEEN];
        data_before <= wdata[0+:SEEN];
        word_taken <= s_word[0+:SEEN];
        data_taken <= s_data[0+:SEEN];

        if (take && mark && !marked) begin
            marked <= 1'b1;
            marked_word <= s_word[0+:SEEN];
            ahead <= flying - (answer ? one : {BITS{1'b0}});
        end else if (marked && answer) begin
            marked <= ahead != 0;
            ahead <= ahead - one;
        end
        if (clear) begin
            first <= 1'b0;
            any_failed <= 1'b0;
        end
        if (fails) begin
            any_failed <= 1'b1;
            first <= marked && ahead == 0;
            first_word <= marked_word;
        end
        if (rst) begin
            flying <= {BITS{1'b0}};
            has_addr <= {BITS{1'b0}};
            has_data <= {BITS{1'b0}};
            aw_waits <= 1'b0;
            w_waits <= 1'b0;
            b_waits <= 1'b0;
            took <= 1'b0;
            had_flying <= 1'b0;
            marked <= 1'b0;
            first <= 1'b0;
            any_failed <= 1'b0;
        end
    end

    always @* begin
        if (!started) assume (rst);
        assume (!bvalid || has_addr != 0 && has_data != 0);
        if (started && !rst) begin
            if (b_waits) assume (bvalid);
            if (aw_waits) assert (awvalid && awaddr[6+:SEEN] == addr_before && !took);
            if (w_waits) assert (wvalid && wdata[0+:SEEN] == data_before && !took);
            assert (awaddr[5:0] == 6'd0);
            assert (aw_waits || awvalid == took);
            assert (w_waits || wvalid == took);
            if (took) assert (awaddr[6+:SEEN] == word_taken && wdata[0+:SEEN] == data_taken);
            assert (flying == has_addr + awvalid && flying == has_data + wvalid);
            assert (flying <= DEPTH);
            assert (!(take && probe_count == DEPTH));
            assert (idle == (flying == 0));
            assert (bready == had_flying);
            assert (failed == any_failed);
            if (marked) assert (ahead < flying);
            if (first) assert (failed_word[0+:SEEN] == first_word);
            // what ties the counts to the module's own; proven with the rest
            assert (flying == probe_count + bready && probe_count <= DEPTH - 1);
            assert (probe_flying == flying);
        end
    end

    always @* begin
        if (started && !rst) begin
            cover (flying == DEPTH);
            cover (first && failed && !clear);
            cover (aw_waits && !w_waits && has_data != 0);
        end
    end

endmodule
