// SPDX-License-Identifier: Apache-2.0
// Several readers on the read channels of one AXI4 master, each with its own id; the lowest index goes first.
// Answers may come in any order between ids. Readers never refuse a word, so `m_axi_rready` stays high.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module axi_read_arbiter #(
    // number of readers, at most 8
    parameter READERS = 5
) (
    input wire clk,
    input wire rst,

    input wire [READERS*64-1:0] s_ar_addr,
    input wire [READERS*8-1:0] s_ar_len,
    input wire [READERS-1:0] s_ar_valid,
    output wire [READERS-1:0] s_ar_ready,
    output wire [READERS-1:0] m_r_valid,

    output wire [2:0] m_axi_arid,
    output wire [63:0] m_axi_araddr,
    output wire [7:0] m_axi_arlen,
    output wire m_axi_arvalid,
    input wire m_axi_arready,
    input wire [2:0] m_axi_rid,
    input wire m_axi_rvalid
);

    // A module that does not exist: elaboration ends with its name.
    generate
        if (READERS < 1 || READERS > 8) begin : check_readers
            axi_read_arbiter_READERS_must_be_from_1_to_8 refused ();
        end
    endgenerate

    reg [2:0] id_reg;
    reg [63:0] addr_reg;
    reg [7:0] len_reg;
    reg valid_reg;

    wire free = !valid_reg || m_axi_arready;
    // one-hot: the lowest request
    wire [READERS-1:0] grant = s_ar_valid & (~s_ar_valid + 1'b1);

    reg [2:0] id_next;
    reg [63:0] addr_next;
    reg [7:0] len_next;
    integer i;

    always @* begin
        id_next = 3'd0;
        addr_next = 64'd0;
        len_next = 8'd0;
        for (i = 0; i < READERS; i = i + 1) begin
            if (grant[i]) begin
                id_next = id_next | i[2:0];
                addr_next = addr_next | s_ar_addr[i*64+:64];
                len_next = len_next | s_ar_len[i*8+:8];
            end
        end
    end

    genvar r;
    generate
        for (r = 0; r < READERS; r = r + 1) begin : reader
            localparam [2:0] ID = r;
            assign s_ar_ready[r] = free && grant[r];
            assign m_r_valid[r] = m_axi_rvalid && m_axi_rid == ID;
        end
    endgenerate

    assign m_axi_arid = id_reg;
    assign m_axi_araddr = addr_reg;
    assign m_axi_arlen = len_reg;
    // low from the first cycle of a reset on, however short the reset
    assign m_axi_arvalid = valid_reg && !rst;

    always @(posedge clk) begin
        if (free) begin
            valid_reg <= |s_ar_valid;
            id_reg <= id_next;
            addr_reg <= addr_next;
            len_reg <= len_next;
        end
        if (rst) valid_reg <= 1'b0;
    end

endmodule

`resetall
