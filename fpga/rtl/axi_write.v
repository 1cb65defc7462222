// SPDX-License-Identifier: Apache-2.0
// Words to the write channels of an AXI4 master, one beat per burst and many in flight, so that an error reply names
// its word. Keeps the address of the first failed word until `clear`. Does not order words against reads.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module axi_write #(
    // words in flight; a power of two
    parameter DEPTH = 64
) (
    input wire clk,
    input wire rst,

    input wire [57:0] s_word,
    input wire [511:0] s_data,
    input wire s_valid,
    output wire s_ready,

    // forgets a failure
    input wire clear,
    // every word has been answered
    output wire idle,
    output wire failed,
    output wire [57:0] failed_word,

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

    localparam BITS = $clog2(DEPTH);

    // A module that does not exist: elaboration ends with its name.
    generate
        if (DEPTH < 2 || (DEPTH & (DEPTH - 1)) != 0) begin : check_depth
            axi_write_DEPTH_must_be_a_power_of_two_from_2 refused ();
        end
    endgenerate

    reg [57:0] aw_word_reg;
    reg aw_valid_reg;
    reg [511:0] w_data_reg;
    reg w_valid_reg;
    reg [BITS:0] flying_reg;
    reg failed_reg;
    reg [57:0] failed_word_reg;

    wire [57:0] oldest_word;
    wire oldest_valid;
    wire room;
    wire take = s_valid && s_ready;
    wire answer = m_axi_bvalid && m_axi_bready;
    // a failure that a word answered now comes behind
    wire kept = failed_reg && !clear;

    assign s_ready = (!aw_valid_reg || m_axi_awready) && (!w_valid_reg || m_axi_wready) && room;
    assign idle = flying_reg == 0;
    assign failed = failed_reg;
    assign failed_word = failed_word_reg;
    assign m_axi_awaddr = {aw_word_reg, 6'd0};
    // low from the first cycle of a reset on, however short the reset
    assign m_axi_awvalid = aw_valid_reg && !rst;
    assign m_axi_wdata = w_data_reg;
    assign m_axi_wvalid = w_valid_reg && !rst;
    assign m_axi_bready = oldest_valid;

    // addresses of words that wait for their answer
    fifo #(
        .WIDTH(58),
        .DEPTH(DEPTH),
        .SPARE(1)
    ) flying (
        .clk(clk),
        .rst(rst),
        .s_data(s_word),
        .s_valid(take),
        .s_ready(room),
        .m_data(oldest_word),
        .m_valid(oldest_valid),
        .m_ready(answer)
    );

    always @(posedge clk) begin
        if (m_axi_awready) aw_valid_reg <= 1'b0;
        if (m_axi_wready) w_valid_reg <= 1'b0;
        if (take) begin
            aw_word_reg <= s_word;
            aw_valid_reg <= 1'b1;
            w_data_reg <= s_data;
            w_valid_reg <= 1'b1;
        end
        if (take != answer) flying_reg <= take ? flying_reg + 1'b1 : flying_reg - 1'b1;
        if (clear) failed_reg <= 1'b0;
        if (answer && m_axi_bresp[1] && !kept) begin
            failed_reg <= 1'b1;
            failed_word_reg <= oldest_word;
        end
        if (rst) begin
            aw_valid_reg <= 1'b0;
            w_valid_reg <= 1'b0;
            flying_reg <= {(BITS + 1) {1'b0}};
            failed_reg <= 1'b0;
        end
    end

endmodule

`resetall
