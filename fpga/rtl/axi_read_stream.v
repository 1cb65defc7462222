// SPDX-License-Identifier: Apache-2.0
// One reader of an AXI4 master: a command (address, words) becomes bursts that stay inside 4 KiB, and their words a
// stream. Asks only for words that its FIFO can take, so a response never waits. Does not look at the data.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module axi_read_stream #(
    // words that may be asked for and not yet taken; a power of two from MAX_BURST to 2048
    parameter DEPTH = 64,
    // words of the longest burst, at most 64 (4 KiB)
    parameter MAX_BURST = 64,
    // bits of a command's word count
    parameter COUNT_BITS = 25
) (
    input wire clk,
    input wire rst,
    // while high: commands are dropped, words that are still owed are taken and thrown away
    input wire flush,
    // nothing is owed
    output wire idle,

    // command: word address (bytes / 64), words
    input wire [57:0] s_cmd_word,
    input wire [COUNT_BITS-1:0] s_cmd_count,
    input wire s_cmd_valid,
    output wire s_cmd_ready,

    output wire [511:0] m_data,
    output wire m_error,
    output wire m_valid,
    input wire m_ready,

    output wire [63:0] m_ar_addr,
    output wire [7:0] m_ar_len,
    output wire m_ar_valid,
    input wire m_ar_ready,
    input wire [511:0] s_r_data,
    input wire s_r_error,
    input wire s_r_valid
);

    localparam [11:0] ROOM = DEPTH[11:0];
    localparam [6:0] LONGEST = MAX_BURST[6:0];

    // A module that does not exist: elaboration ends with its name.
    generate
        if (MAX_BURST < 1 || MAX_BURST > 64) begin : check_burst
            axi_read_stream_MAX_BURST_must_be_from_1_to_64 refused ();
        end
        if (DEPTH < MAX_BURST || DEPTH > 2048 || (DEPTH & (DEPTH - 1)) != 0) begin : check_depth
            axi_read_stream_DEPTH_must_be_a_power_of_two_from_MAX_BURST_to_2048 refused ();
        end
        if (COUNT_BITS < 8 || COUNT_BITS > 58) begin : check_count
            axi_read_stream_COUNT_BITS_must_be_from_8_to_58 refused ();
        end
    endgenerate

    reg [57:0] word_reg;
    reg [COUNT_BITS-1:0] left_reg;
    reg [11:0] owed_reg;
    reg [57:0] ar_word_reg;
    reg [6:0] ar_words_reg;
    reg ar_valid_reg;

    // words up to the next 4 KiB boundary, the end of the command, the longest burst
    wire [6:0] to_page = 7'd64 - {1'b0, word_reg[5:0]};
    wire [6:0] to_limit = to_page < LONGEST ? to_page : LONGEST;
    wire [6:0] burst = left_reg < {{(COUNT_BITS - 7) {1'b0}}, to_limit} ? left_reg[6:0] : to_limit;
    wire [11:0] burst_wide = {5'd0, burst};

    wire fits = owed_reg + burst_wide <= ROOM;
    wire issue = left_reg != 0 && fits && !flush && (!ar_valid_reg || m_ar_ready);
    wire fifo_valid;
    wire pop = fifo_valid && (m_ready || flush);
    wire fifo_ready;

    assign s_cmd_ready = left_reg == 0 && !flush;
    assign m_ar_addr = {ar_word_reg, 6'd0};
    assign m_ar_len = {1'b0, ar_words_reg - 7'd1};
    // low from the first cycle of a reset on, however short the reset
    assign m_ar_valid = ar_valid_reg && !rst;
    assign m_valid = fifo_valid && !flush;
    assign idle = left_reg == 0 && !ar_valid_reg && owed_reg == 0;

    fifo #(
        .WIDTH(513),
        .DEPTH(DEPTH)
    ) words (
        .clk(clk),
        .rst(rst),
        .s_data({s_r_error, s_r_data}),
        .s_valid(s_r_valid),
        .s_ready(fifo_ready),
        .m_data({m_error, m_data}),
        .m_valid(fifo_valid),
        .m_ready(m_ready || flush)
    );

    always @(posedge clk) begin
        if (ar_valid_reg && m_ar_ready) ar_valid_reg <= 1'b0;
        if (s_cmd_valid && s_cmd_ready) begin
            word_reg <= s_cmd_word;
            left_reg <= s_cmd_count;
        end
        if (issue) begin
            ar_word_reg <= word_reg;
            ar_words_reg <= burst;
            ar_valid_reg <= 1'b1;
            word_reg <= word_reg + {51'd0, burst};
            left_reg <= left_reg - {{(COUNT_BITS - 7) {1'b0}}, burst};
        end
        owed_reg <= owed_reg + (issue ? burst_wide : 12'd0) - {11'd0, pop};
        if (flush) left_reg <= {COUNT_BITS{1'b0}};
        if (rst) begin
            left_reg <= {COUNT_BITS{1'b0}};
            owed_reg <= 12'd0;
            ar_valid_reg <= 1'b0;
        end
    end

endmodule

`resetall
