// SPDX-License-Identifier: Apache-2.0
// What a step of K or V has shown so far: its first error reply, its first Inf or NaN. Leaves a record at the end of
// every page and of the step. Judges nothing: see step_judge.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module step_record (
    input wire clk,
    input wire rst,

    // one word: first and last of its step
    input wire s_valid,
    input wire s_is_v,
    input wire s_step_first,
    input wire s_step_end,
    input wire s_job_last,
    // its place: last word of a checked page, segment, page, position
    input wire s_page_end,
    input wire [17:0] s_segment,
    input wire [18:0] s_page,
    input wire [20:0] s_position,
    // answered with an error; by the reader of new rows; its address
    input wire s_error,
    input wire s_new,
    input wire [57:0] s_word,
    // words of kv in this step before this one, and with it
    input wire [14:0] s_words,
    input wire [14:0] s_words_after,
    // one cycle later: CRC of the page up to this word, Inf or NaN in what belongs to the row
    input wire [31:0] late_crc,
    input wire late_nonfinite,

    // {is_v, page_end, crc 32, segment 18, page 19, step_end, job_last, error, error_new, error_word 58, error_words 15,
    //  nonfinite, nonfinite segment 18, nonfinite position 21, words 15}
    output wire [202:0] record,
    output wire record_valid
);

    // the word one cycle later
    reg valid_reg;
    reg is_v_reg;
    reg step_first_reg;
    reg step_end_reg;
    reg job_last_reg;
    reg page_end_reg;
    reg [17:0] segment_reg;
    reg [18:0] page_reg;
    reg [20:0] position_reg;
    reg error_reg;
    reg new_reg;
    reg [57:0] word_reg;
    reg [14:0] words_reg;
    reg [14:0] words_after_reg;
    // the step up to the word before
    reg bad_reg;
    reg bad_new_reg;
    reg [57:0] bad_word_reg;
    reg [14:0] bad_words_reg;
    reg nonfinite_reg;
    reg [17:0] nonfinite_segment_reg;
    reg [20:0] nonfinite_position_reg;

    wire bad_before = bad_reg && !step_first_reg;
    wire bad = bad_before || error_reg;
    wire bad_new = bad_before ? bad_new_reg : new_reg;
    wire [57:0] bad_word = bad_before ? bad_word_reg : word_reg;
    wire [14:0] bad_words = bad_before ? bad_words_reg : words_reg;
    wire nonfinite_before = nonfinite_reg && !step_first_reg;
    wire nonfinite = nonfinite_before || late_nonfinite;
    wire [17:0] nonfinite_segment = nonfinite_before ? nonfinite_segment_reg : segment_reg;
    wire [20:0] nonfinite_position = nonfinite_before ? nonfinite_position_reg : position_reg;

    assign record = {
        is_v_reg, page_end_reg, late_crc, segment_reg, page_reg, step_end_reg, job_last_reg, bad, bad_new, bad_word,
        bad_words, nonfinite, nonfinite_segment, nonfinite_position, words_after_reg
    };
    assign record_valid = valid_reg && (page_end_reg || step_end_reg);

    always @(posedge clk) begin
        valid_reg <= s_valid && !rst;
        if (s_valid) begin
            is_v_reg <= s_is_v;
            step_first_reg <= s_step_first;
            step_end_reg <= s_step_end;
            job_last_reg <= s_job_last;
            page_end_reg <= s_page_end;
            segment_reg <= s_segment;
            page_reg <= s_page;
            position_reg <= s_position;
            error_reg <= s_error;
            new_reg <= s_new;
            word_reg <= s_word;
            words_reg <= s_words;
            words_after_reg <= s_words_after;
        end
        if (valid_reg) begin
            bad_reg <= bad;
            bad_new_reg <= bad_new;
            bad_word_reg <= bad_word;
            bad_words_reg <= bad_words;
            nonfinite_reg <= nonfinite;
            nonfinite_segment_reg <= nonfinite_segment;
            nonfinite_position_reg <= nonfinite_position;
        end
    end

endmodule

`resetall
