// SPDX-License-Identifier: Apache-2.0
// Expected page checksums of checked segments, in the order of their pages, once for the K steps and once for the V
// steps. Keeps the address of the first word that was answered with an error.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module checksum_fetch (
    input wire clk,
    input wire rst,

    // first entry (address / 8), number of pages
    input wire [60:0] s_entry,
    input wire [19:0] s_pages,
    input wire s_valid,
    output wire s_ready,

    // reader on ctl
    output wire [57:0] cmd_word,
    output wire [24:0] cmd_count,
    output wire cmd_valid,
    input wire cmd_ready,
    input wire [511:0] r_data,
    input wire r_error,
    input wire r_valid,
    output wire r_ready,

    // {error, CRC-32C}
    output wire [32:0] k_crc,
    output wire k_valid,
    input wire k_ready,
    output wire [32:0] v_crc,
    output wire v_valid,
    input wire v_ready,
    output wire [57:0] error_word
);

    reg busy_reg;
    reg cmd_valid_reg;
    reg [57:0] word_reg;
    reg [57:0] first_word_reg;
    reg [24:0] count_reg;
    reg [2:0] entry_reg;
    reg [19:0] left_reg;
    reg error_reg;
    reg [57:0] error_word_reg;

    wire k_room;
    wire v_room;
    wire push = busy_reg && r_valid && k_room && v_room;
    wire last = left_reg == 20'd1;
    wire [63:0] pair = r_data[{entry_reg, 6'd0}+:64];
    wire [20:0] span = {1'b0, s_pages} + {18'd0, s_entry[2:0]} + 21'd7;

    assign s_ready = !busy_reg;
    assign cmd_word = first_word_reg;
    assign cmd_count = count_reg;
    assign cmd_valid = cmd_valid_reg;
    assign r_ready = push && (last || entry_reg == 3'd7);
    assign error_word = error_word_reg;

    // The V steps of two visits lie behind the K steps: up to 256 pages each.
    fifo #(
        .WIDTH(33),
        .DEPTH(256)
    ) k_crcs (
        .clk(clk),
        .rst(rst),
        .s_data({r_error, pair[31:0]}),
        .s_valid(push),
        .s_ready(k_room),
        .m_data(k_crc),
        .m_valid(k_valid),
        .m_ready(k_ready)
    );

    fifo #(
        .WIDTH(33),
        .DEPTH(1024)
    ) v_crcs (
        .clk(clk),
        .rst(rst),
        .s_data({r_error, pair[63:32]}),
        .s_valid(push),
        .s_ready(v_room),
        .m_data(v_crc),
        .m_valid(v_valid),
        .m_ready(v_ready)
    );

    always @(posedge clk) begin
        if (cmd_valid_reg && cmd_ready) cmd_valid_reg <= 1'b0;
        if (s_valid && s_ready) begin
            busy_reg <= 1'b1;
            cmd_valid_reg <= 1'b1;
            first_word_reg <= s_entry[60:3];
            word_reg <= s_entry[60:3];
            count_reg <= {7'd0, span[20:3]};
            entry_reg <= s_entry[2:0];
            left_reg <= s_pages;
        end
        if (push) begin
            entry_reg <= entry_reg + 3'd1;
            left_reg <= left_reg - 20'd1;
            if (r_ready) word_reg <= word_reg + 58'd1;
            if (last) busy_reg <= 1'b0;
            if (r_error && !error_reg) begin
                error_reg <= 1'b1;
                error_word_reg <= word_reg;
            end
        end
        if (rst) begin
            busy_reg <= 1'b0;
            cmd_valid_reg <= 1'b0;
            error_reg <= 1'b0;
        end
    end

endmodule

`resetall
