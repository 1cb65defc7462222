// SPDX-License-Identifier: Apache-2.0
// axi_read_arbiter: each request that is accepted goes out once, unchanged, with the id of its reader, and stands
// still until the memory accepts it; an answer reaches the reader of its id and no other.
`default_nettype none

module axi_read_arbiter_properties #(
    parameter READERS = 5
) (
    input wire clk,
    input wire rst,
    input wire [READERS*64-1:0] s_ar_addr,
    input wire [READERS*8-1:0] s_ar_len,
    input wire [READERS-1:0] s_ar_valid,
    input wire arready,
    input wire [2:0] rid,
    input wire rvalid
);

    wire [READERS-1:0] s_ar_ready;
    wire [READERS-1:0] m_r_valid;
    wire [2:0] arid;
    wire [63:0] araddr;
    wire [7:0] arlen;
    wire arvalid;

    axi_read_arbiter #(
        .READERS(READERS)
    ) dut (
        .clk(clk),
        .rst(rst),
        .s_ar_addr(s_ar_addr),
        .s_ar_len(s_ar_len),
        .s_ar_valid(s_ar_valid),
        .s_ar_ready(s_ar_ready),
        .m_r_valid(m_r_valid),
        .m_axi_arid(arid),
        .m_axi_araddr(araddr),
        .m_axi_arlen(arlen),
        .m_axi_arvalid(arvalid),
        .m_axi_arready(arready),
        .m_axi_rid(rid),
        .m_axi_rvalid(rvalid)
    );

    reg started = 1'b0;
    reg waits;
    reg [2:0] arid_before;
    reg [63:0] araddr_before;
    reg [7:0] arlen_before;
    reg [READERS-1:0] accepted;
    reg [READERS*64-1:0] addr_before;
    reg [READERS*8-1:0] len_before;
    wire [READERS-1:0] takes = s_ar_valid & s_ar_ready;

    always @(posedge clk) begin
        started <= 1'b1;
        waits <= arvalid && !arready && !rst;
        arid_before <= arid;
        araddr_before <= araddr;
        arlen_before <= arlen;
        accepted <= rst ? {READERS{1'b0}} : takes;
        addr_before <= s_ar_addr;
        len_before <= s_ar_len;
    end

    integer i;

    always @* begin
        if (!started) assume (rst);
        if (started && !rst) begin
            if (waits) assert (arvalid && arid == arid_before && araddr == araddr_before && arlen == arlen_before);
            if (waits) assert (accepted == 0);
            assert (waits || arvalid == (accepted != 0));
            assert ((takes & (takes - 1'b1)) == 0);
            // nobody is kept waiting while the port is free
            if (!arvalid || arready) assert (takes != 0 || s_ar_valid == 0);
            for (i = 0; i < READERS; i = i + 1) begin
                if (accepted[i]) begin
                    assert (arid == i);
                    assert (araddr == addr_before[i*64+:64]);
                    assert (arlen == len_before[i*8+:8]);
                end
                assert (m_r_valid[i] == (rvalid && rid == i));
            end
        end
    end

    always @* begin
        if (started && !rst) begin
            cover (arvalid && arready && arid == READERS - 1);
            cover (waits && s_ar_valid[0]);
            cover (arvalid && arready && takes[1]);
        end
    end

endmodule
