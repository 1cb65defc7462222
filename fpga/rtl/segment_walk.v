// SPDX-License-Identifier: Apache-2.0
// The segments of a job, its new rows last, cut into pieces that lie in one 128-token block each; tells where a visit
// ends. Reads the descriptors again (they have been checked) and asks for their checksums. Does not read K or V.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module segment_walk (
    input wire clk,
    input wire rst,

    // a job that can walk
    input wire [2047:0] job,
    input wire [3:0] chunks,
    input wire half_last,
    input wire parity,
    input wire job_valid,
    output wire job_ready,
    // all descriptors of the job that is prepared are sound; the job at hand has been refused
    input wire sound,
    input wire refused,

    // the first 16 segments, each as soon as job_prepare has found it sound
    input wire [511:0] near_data,
    input wire near_valid,
    output wire near_ready,
    // reader of the others
    output wire [57:0] cmd_word,
    output wire [24:0] cmd_count,
    output wire cmd_valid,
    input wire cmd_ready,
    input wire [511:0] far_data,
    input wire far_error,
    input wire far_valid,
    output wire far_ready,
    // a descriptor could be read once and not again; stays until reset
    output wire failed,
    output wire [57:0] failed_word,

    // checksums of a segment: address / 8, pages
    output wire [60:0] crc_entry,
    output wire [19:0] crc_pages,
    output wire crc_valid,
    input wire crc_ready,

    // {visit_first, visit_last, job_last, parity, half_last, chunks 4, groups - 1 3, is_new, checked, tokens 8, slot 7,
    //  block 14, words before 6, words after 6, segment 18, page 19, k word 58, v word 58}
    output wire [207:0] piece,
    output wire piece_valid,
    input wire piece_ready,
    // no piece will come before the next job
    output wire idle
);

    localparam [1:0] IDLE = 2'd0;
    localparam [1:0] LOAD = 2'd1;
    localparam [1:0] EMIT = 2'd2;

    reg [1:0] state_reg;
    reg [57:0] list_word_reg;
    reg cmd_valid_reg;
    reg [17:0] segments_reg;
    reg [6:0] new_tokens_reg;
    reg [31:0] new_first_reg;
    reg [57:0] new_k_reg;
    reg [57:0] new_v_reg;
    reg [3:0] chunks_reg;
    reg half_reg;
    reg parity_reg;
    reg [2:0] groups_reg;

    // the segment at hand
    reg [17:0] index_reg;
    reg [21:0] left_reg;
    reg [21:0] position_reg;
    reg [57:0] k_reg;
    reg [57:0] v_reg;
    reg [60:0] crc_reg;
    reg checked_reg;
    reg new_reg;
    reg first_reg;
    // words from the start of the segment's first page
    reg [25:0] offset_reg;
    reg visit_first_reg;
    // as `sound`, of the job at hand
    reg sound_reg;
    // No more segments come: the visit ends here, so that jobs before this one get their V.
    reg over_reg;
    reg failed_reg;
    reg [57:0] failed_word_reg;

    wire [6:0] rows = job[`NK_JOB_ROWS_LSB+:7];
    wire [6:0] rows_above = rows - 7'd1;
    wire attend = job[`NK_JOB_OPCODE_LSB+:32] == `NK_OPCODE_ATTEND;

    wire [6:0] slot = position_reg[6:0];
    wire [7:0] to_block = 8'd128 - {1'b0, slot};
    wire ends_segment = left_reg <= {14'd0, to_block};
    wire [7:0] tokens = ends_segment ? left_reg[7:0] : to_block;
    wire ends_block = left_reg >= {14'd0, to_block};
    wire [21:0] next_position = position_reg + {14'd0, tokens};
    wire [10:0] words = {3'd0, tokens} * {7'd0, chunks_reg};

    // what comes after this segment
    wire [17:0] next_index = index_reg + 18'd1;
    // the descriptor to look at: this one in LOAD, the next one in EMIT
    wire is_near = (state_reg == LOAD ? index_reg : next_index) < 18'd16;
    wire [511:0] s_data = is_near ? near_data : far_data;
    wire s_valid = is_near ? near_valid : far_valid && sound_reg;
    wire s_error = !is_near && far_error;
    wire more_segments = next_index < segments_reg && !over_reg;
    wire then_new = !over_reg && !new_reg && next_index == segments_reg && new_tokens_reg != 7'd0;
    wire known = !ends_segment || ends_block || !more_segments || s_valid;
    wire [31:0] next_first = more_segments ? s_data[`NK_SEGMENT_FIRST_POSITION_LSB+:32] : new_first_reg;
    wire follows = (more_segments || then_new) && next_first == {10'd0, next_position};
    wire job_last = ends_segment && !more_segments && !then_new;
    // no segment and no new row
    wire nothing = left_reg == 22'd0;

    wire [5:0] before = first_reg && checked_reg ? offset_reg[5:0] : 6'd0;
    wire [25:0] end_offset = offset_reg + {15'd0, words};
    wire [5:0] after = checked_reg && ends_segment ? 6'd0 - end_offset[5:0] : 6'd0;
    wire [24:0] segment_words = {3'd0, left_reg} * {21'd0, chunks_reg};
    wire [25:0] page_words = {1'b0, segment_words} + {20'd0, offset_reg[5:0]} + 26'd63;
    wire wants_crc = first_reg && checked_reg;
    wire emit = state_reg == EMIT && known;
    // A piece and its request for checksums go out together: both READYs are of FIFOs, which do not wait for a VALID.
    wire fire = emit && piece_ready && (!wants_crc || crc_ready);

    // After a failure no job is taken, so the last one taken is the one that failed.
    assign job_ready = state_reg == IDLE && !failed_reg;
    assign cmd_word = list_word_reg;
    assign cmd_count = {7'd0, segments_reg} - 25'd16;
    assign cmd_valid = cmd_valid_reg;
    assign near_ready = state_reg == LOAD && index_reg < segments_reg && is_near && !over_reg;
    assign far_ready = state_reg == LOAD && index_reg < segments_reg && !is_near && sound_reg && !s_error;
    assign failed = failed_reg;
    assign failed_word = failed_word_reg;
    assign crc_entry = crc_reg;
    assign crc_pages = page_words[25:6];
    assign crc_valid = emit && wants_crc && piece_ready;
    assign piece = {
        visit_first_reg, ends_block || !follows && ends_segment, job_last, parity_reg, half_reg, chunks_reg,
        groups_reg, new_reg, checked_reg, tokens, slot, position_reg[20:7], before, after, index_reg,
        offset_reg[24:6], k_reg, v_reg
    };
    assign piece_valid = emit && (!wants_crc || crc_ready);
    assign idle = state_reg == IDLE && (!job_valid || failed_reg);

    always @(posedge clk) begin
        if (cmd_valid_reg && cmd_ready) cmd_valid_reg <= 1'b0;
        if (sound) sound_reg <= 1'b1;
        if (refused || failed_reg) over_reg <= 1'b1;
        if (job_valid && job_ready) begin
            state_reg <= LOAD;
            sound_reg <= sound;
            over_reg <= 1'b0;
            list_word_reg <= job[`NK_JOB_SEGMENTS_ADDR_LSB+6+:58] + 58'd16;
            segments_reg <= attend ? job[`NK_JOB_SEGMENTS_LSB+:18] : 18'd0;
            cmd_valid_reg <= attend && job[`NK_JOB_SEGMENTS_LSB+:18] > 18'd16;
            new_tokens_reg <= attend ? job[`NK_JOB_NEW_TOKENS_LSB+:7] : 7'd0;
            new_first_reg <= job[`NK_JOB_NEW_FIRST_LSB+:32];
            new_k_reg <= job[`NK_JOB_NEW_K_ADDR_LSB+6+:58];
            new_v_reg <= job[`NK_JOB_NEW_V_ADDR_LSB+6+:58];
            chunks_reg <= chunks;
            half_reg <= half_last;
            parity_reg <= parity;
            groups_reg <= attend ? rows_above[5:3] : 3'd0;
            index_reg <= 18'd0;
            visit_first_reg <= 1'b1;
        end
        if (state_reg == LOAD) begin
            first_reg <= 1'b1;
            if (over_reg) begin
                state_reg <= EMIT;
                left_reg <= 22'd0;
                checked_reg <= 1'b0;
                new_reg <= 1'b1;
            end else if (index_reg < segments_reg) begin
                if (s_valid && s_error) begin
                    failed_reg <= 1'b1;
                    failed_word_reg <= list_word_reg + {40'd0, index_reg} - 58'd16;
                end else if (s_valid) begin
                    state_reg <= EMIT;
                    left_reg <= s_data[`NK_SEGMENT_TOKENS_LSB+:22];
                    position_reg <= s_data[`NK_SEGMENT_FIRST_POSITION_LSB+:22];
                    k_reg <= s_data[`NK_SEGMENT_K_ADDR_LSB+6+:58];
                    v_reg <= s_data[`NK_SEGMENT_V_ADDR_LSB+6+:58];
                    crc_reg <= s_data[`NK_SEGMENT_CRC_ADDR_LSB+3+:61];
                    checked_reg <= s_data[`NK_SEGMENT_CRC_ADDR_LSB+:64] != 64'd0;
                    offset_reg <= {20'd0, s_data[`NK_SEGMENT_K_ADDR_LSB+6+:6]};
                    new_reg <= 1'b0;
                end
            end else if (sound_reg) begin
                state_reg <= EMIT;
                left_reg <= {15'd0, new_tokens_reg};
                position_reg <= new_tokens_reg == 7'd0 ? 22'd0 : new_first_reg[21:0];
                k_reg <= new_k_reg;
                v_reg <= new_v_reg;
                checked_reg <= 1'b0;
                offset_reg <= 26'd0;
                new_reg <= 1'b1;
            end
        end
        if (fire) begin
            first_reg <= 1'b0;
            left_reg <= left_reg - {14'd0, tokens};
            position_reg <= next_position;
            k_reg <= k_reg + {47'd0, words};
            v_reg <= v_reg + {47'd0, words};
            offset_reg <= end_offset;
            visit_first_reg <= ends_block || !follows && ends_segment;
            if (ends_segment) begin
                index_reg <= next_index;
                state_reg <= job_last || nothing ? IDLE : LOAD;
            end
        end
        if (rst) begin
            state_reg <= IDLE;
            cmd_valid_reg <= 1'b0;
            failed_reg <= 1'b0;
        end
    end

endmodule

`resetall
