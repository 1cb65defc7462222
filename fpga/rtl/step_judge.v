// SPDX-License-Identifier: Apache-2.0
// Compares page checksums and judges steps in the contract's order (K, then V, visit by visit) whatever the order in
// which they were read. Counts the words of each job. Stops at the first fault and keeps it until reset.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module step_judge (
    input wire clk,
    input wire rst,

    // see step_record
    input wire [202:0] record,
    input wire record_valid,
    output wire record_ready,

    // see checksum_fetch
    input wire [32:0] k_crc,
    input wire k_crc_valid,
    output wire k_crc_ready,
    input wire [32:0] v_crc,
    input wire v_crc_valid,
    output wire v_crc_ready,
    input wire [57:0] crc_error_word,

    // a job has been judged sound; held until taken. `beats`: words read on kv, also with a fault
    output wire job_sound,
    input wire job_taken,
    output wire [31:0] beats,
    // {address 64, detail 32, position 32, kind 32, page 32, segment 32, code 32}
    output wire faulty,
    output wire [255:0] fault
);

    wire is_v = record[202];
    wire page_end = record[201];
    wire [31:0] crc = record[200:169];
    wire [17:0] segment = record[168:151];
    wire [18:0] page = record[150:132];
    wire step_end = record[131];
    wire job_last = record[130];
    wire error = record[129];
    wire error_new = record[128];
    wire [57:0] error_word = record[127:70];
    wire [14:0] error_words = record[69:55];
    wire nonfinite = record[54];
    wire [17:0] nonfinite_segment = record[53:36];
    wire [20:0] nonfinite_position = record[35:15];
    wire [14:0] words = record[14:0];

    // what the pages of the K step and of the V step (bit 1) at hand have shown
    reg [1:0] crc_error_reg;
    reg [1:0] mismatch_reg;
    reg [17:0] k_segment_reg;
    reg [18:0] k_page_reg;
    reg [17:0] v_segment_reg;
    reg [18:0] v_page_reg;

    wire expected_valid = is_v ? v_crc_valid : k_crc_valid;
    wire [32:0] expected = is_v ? v_crc : k_crc;
    wire step_room;
    wire k_room;
    wire v_room;
    wire take = record_valid && record_ready;
    wire page_take = take && page_end;

    wire crc_error = crc_error_reg[is_v] || page_end && expected[32];
    wire mismatch_now = page_end && expected[31:0] != crc;
    wire mismatch = mismatch_reg[is_v] || mismatch_now;
    wire [17:0] bad_segment = !mismatch_reg[is_v] ? segment : is_v ? v_segment_reg : k_segment_reg;
    wire [18:0] bad_page = !mismatch_reg[is_v] ? page : is_v ? v_page_reg : k_page_reg;

    assign step_room = is_v ? v_room : k_room;
    assign record_ready = (!page_end || expected_valid) && (!step_end || step_room);
    assign k_crc_ready = page_take && !is_v;
    assign v_crc_ready = page_take && is_v;

    // ended steps: {job_last, words 15, error_words 15, error, error_new, crc_error, mismatch, nonfinite, word 58, segment 18, page or position 21}
    wire [17:0] shown_segment = mismatch ? bad_segment : nonfinite_segment;
    wire [20:0] shown_place = mismatch ? {2'd0, bad_page} : nonfinite_position;
    wire [132:0] ended = {
        job_last, words, error ? error_words : words, error, error_new, crc_error, mismatch, nonfinite,
        error ? error_word : crc_error_word, shown_segment, shown_place
    };
    wire [132:0] k_step;
    wire [132:0] v_step;
    wire k_step_valid;
    wire v_step_valid;
    wire pop;
    reg next_v_reg;

    fifo #(
        .WIDTH(133),
        .DEPTH(4)
    ) k_steps (
        .clk(clk),
        .rst(rst),
        .s_data(ended),
        .s_valid(take && step_end && !is_v),
        .s_ready(k_room),
        .m_data(k_step),
        .m_valid(k_step_valid),
        .m_ready(pop && !next_v_reg)
    );

    fifo #(
        .WIDTH(133),
        .DEPTH(4)
    ) v_steps (
        .clk(clk),
        .rst(rst),
        .s_data(ended),
        .s_valid(take && step_end && is_v),
        .s_ready(v_room),
        .m_data(v_step),
        .m_valid(v_step_valid),
        .m_ready(pop && next_v_reg)
    );

    reg [31:0] beats_reg;
    reg sound_reg;
    reg faulty_reg;
    reg [255:0] fault_reg;

    wire [132:0] step = next_v_reg ? v_step : k_step;
    wire step_valid = next_v_reg ? v_step_valid : k_step_valid;
    wire [14:0] step_words = step[131:117];
    wire [14:0] step_error_words = step[116:102];
    wire step_error = step[101];
    wire step_error_new = step[100];
    wire step_crc_error = step[99];
    wire step_mismatch = step[98];
    wire step_nonfinite = step[97];
    wire bad = step_error || step_crc_error || step_mismatch || step_nonfinite;
    wire [63:0] address = {step[96:39], 6'd0};
    wire [31:0] bad_step_segment = {14'd0, step[38:21]};
    wire [31:0] place = {11'd0, step[20:0]};
    wire [31:0] kind = next_v_reg ? `NK_KIND_V : `NK_KIND_K;
    wire [31:0] na = `NK_NOT_APPLICABLE;
    wire [31:0] master = step_error && !step_error_new ? `NK_MASTER_KV : `NK_MASTER_CTL;

    assign pop = step_valid && !sound_reg && !faulty_reg;
    assign job_sound = sound_reg;
    assign beats = beats_reg;
    assign faulty = faulty_reg;
    assign fault = fault_reg;

    always @(posedge clk) begin
        if (take) begin
            crc_error_reg[is_v] <= crc_error && !step_end;
            mismatch_reg[is_v] <= mismatch && !step_end;
            if (!is_v) k_segment_reg <= bad_segment;
            if (!is_v) k_page_reg <= bad_page;
            if (is_v) v_segment_reg <= bad_segment;
            if (is_v) v_page_reg <= bad_page;
        end
        if (job_taken) begin
            sound_reg <= 1'b0;
            beats_reg <= 32'd0;
        end
        if (pop) begin
            next_v_reg <= !next_v_reg;
            beats_reg <= beats_reg + {17'd0, step_error ? step_error_words : step_words};
            faulty_reg <= bad;
            sound_reg <= !bad && next_v_reg && step[132];
            fault_reg <= step_error || step_crc_error ? {address, master, na, na, na, na, `NK_STATUS_AXI_READ} :
                step_mismatch ? {64'd0, na, na, kind, place, bad_step_segment, `NK_STATUS_CRC_MISMATCH} :
                {64'd0, na, place, kind, na, bad_step_segment, `NK_STATUS_NONFINITE_KV};
        end
        if (rst) begin
            crc_error_reg <= 2'd0;
            mismatch_reg <= 2'd0;
            next_v_reg <= 1'b0;
            sound_reg <= 1'b0;
            faulty_reg <= 1'b0;
            beats_reg <= 32'd0;
        end
    end

endmodule

`resetall
