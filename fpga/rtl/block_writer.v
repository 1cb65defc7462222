// SPDX-License-Identifier: Apache-2.0
// Data words to the block buffers, in the order of the tasks. Finds each row's exponent and each page's checksum; what
// a step has shown leaves as records.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module block_writer (
    input wire clk,
    input wire rst,

    // see step_reader
    input wire [146:0] task_data,
    input wire task_valid,
    output wire task_ready,

    input wire [511:0] kv_data,
    input wire kv_error,
    input wire kv_valid,
    output wire kv_ready,
    input wire [511:0] new_data,
    input wire new_error,
    input wire new_valid,
    output wire new_ready,

    // block buffers: words, then the row's exponent field
    output wire word_valid,
    output wire word_is_v,
    output wire [10:0] word_addr,
    output wire [511:0] word_data,
    output wire top_valid,
    output wire top_is_v,
    output wire [7:0] top_addr,
    output wire [4:0] top,
    // pulse after `top`: one more row can be read
    output wire k_row,
    output wire v_row,
    // pulse: the array has left the older of two visits
    input wire k_release,
    input wire v_release,

    // see step_record
    output wire [202:0] record,
    output wire record_valid,
    // falls while some records can still be taken
    input wire record_ready
);

    wire is_v = task_data[146];
    wire visit_first = task_data[145];
    wire visit_last = task_data[144];
    wire job_last = task_data[143];
    wire half_last = task_data[142];
    wire [3:0] chunks = task_data[141:138];
    wire is_new = task_data[137];
    wire checked = task_data[136];
    wire [7:0] tokens = task_data[135:128];
    wire [6:0] slot = task_data[127:121];
    wire [13:0] block = task_data[120:107];
    wire [5:0] before = task_data[106:101];
    wire [5:0] after = task_data[100:95];
    wire [17:0] segment = task_data[94:77];
    wire [18:0] page = task_data[76:58];
    wire [57:0] first_word = task_data[57:0];

    // place inside the task
    reg [5:0] before_reg;
    reg [7:0] row_reg;
    reg [2:0] chunk_reg;
    reg [5:0] after_reg;
    reg [10:0] index_reg;
    // visits in the buffers, and which half is written
    reg [1:0] k_used_reg;
    reg [1:0] v_used_reg;
    reg k_half_reg;
    reg v_half_reg;
    // words of kv in this step
    reg [14:0] words_reg;

    wire nothing = tokens == 8'd0;
    wire in_before = before_reg != before;
    wire payload = !in_before && row_reg != tokens;
    wire last_chunk = {1'b0, chunk_reg} + 4'd1 == chunks;
    wire last_row = row_reg + 8'd1 == tokens;
    wire task_last = nothing || (after == 6'd0 ? payload && last_chunk && last_row :
        !in_before && !payload && after_reg + 6'd1 == after);
    wire step_first = visit_first && index_reg == 11'd0;
    wire slot_free = is_v ? v_used_reg != 2'd2 : k_used_reg != 2'd2;
    wire source_valid = is_new ? new_valid : kv_valid;
    wire go = task_valid && record_ready && (nothing || source_valid) && (!step_first || slot_free);
    wire step_end = task_last && visit_last;
    wire [57:0] word = first_word + {47'd0, index_reg};
    wire [11:0] in_pages = {6'd0, first_word[5:0]} + {1'b0, index_reg};
    wire [14:0] words = step_first ? 15'd0 : words_reg;
    wire [14:0] words_after = words + {14'd0, !nothing && !is_new};

    assign kv_ready = go && !nothing && !is_new;
    assign new_ready = go && !nothing && is_new;
    assign task_ready = go && task_last;

    // stage a: the word itself
    reg a_valid_reg;
    reg [511:0] a_data_reg;
    reg a_beat_reg;
    reg a_payload_reg;
    reg a_is_v_reg;
    reg a_half_reg;
    reg [6:0] a_slot_reg;
    reg [2:0] a_chunk_reg;
    reg a_last_chunk_reg;
    reg a_pad_reg;
    reg [13:0] a_block_reg;
    reg [17:0] a_segment_reg;
    reg [18:0] a_page_reg;
    reg a_page_first_reg;
    reg a_page_end_reg;
    reg a_step_first_reg;
    reg a_step_end_reg;
    reg a_job_last_reg;
    reg a_error_reg;
    reg a_new_reg;
    reg [57:0] a_word_reg;
    reg [14:0] a_words_reg;
    reg [14:0] a_words_after_reg;

    always @(posedge clk) begin
        a_valid_reg <= go;
        if (go) begin
            a_data_reg <= is_new ? new_data : kv_data;
            a_beat_reg <= !nothing;
            a_payload_reg <= payload && !nothing;
            a_is_v_reg <= is_v;
            a_half_reg <= is_v ? v_half_reg : k_half_reg;
            a_slot_reg <= slot + row_reg[6:0];
            a_chunk_reg <= chunk_reg;
            a_last_chunk_reg <= last_chunk;
            a_pad_reg <= half_last && last_chunk;
            a_block_reg <= block;
            a_segment_reg <= segment;
            a_page_reg <= page + {13'd0, in_pages[11:6]};
            a_page_first_reg <= in_pages[5:0] == 6'd0;
            a_page_end_reg <= checked && in_pages[5:0] == 6'd63;
            a_step_first_reg <= step_first;
            a_step_end_reg <= step_end;
            a_job_last_reg <= job_last;
            a_error_reg <= !nothing && (is_new ? new_error : kv_error);
            a_new_reg <= is_new;
            a_word_reg <= word;
            a_words_reg <= words;
            a_words_after_reg <= words_after;

            words_reg <= words_after;
            index_reg <= task_last ? 11'd0 : index_reg + 11'd1;
            if (task_last) begin
                before_reg <= 6'd0;
                row_reg <= 8'd0;
                chunk_reg <= 3'd0;
                after_reg <= 6'd0;
            end else if (in_before) before_reg <= before_reg + 6'd1;
            else if (payload) begin
                chunk_reg <= last_chunk ? 3'd0 : chunk_reg + 3'd1;
                if (last_chunk) row_reg <= row_reg + 8'd1;
            end else after_reg <= after_reg + 6'd1;
            if (step_end && is_v) v_half_reg <= !v_half_reg;
            if (step_end && !is_v) k_half_reg <= !k_half_reg;
        end
        k_used_reg <= k_used_reg + {1'b0, go && step_first && !is_v} - {1'b0, k_release};
        v_used_reg <= v_used_reg + {1'b0, go && step_first && is_v} - {1'b0, v_release};
        if (rst) begin
            a_valid_reg <= 1'b0;
            before_reg <= 6'd0;
            row_reg <= 8'd0;
            chunk_reg <= 3'd0;
            after_reg <= 6'd0;
            index_reg <= 11'd0;
            k_used_reg <= 2'd0;
            v_used_reg <= 2'd0;
            k_half_reg <= 1'b0;
            v_half_reg <= 1'b0;
        end
    end

    assign word_valid = a_valid_reg && a_payload_reg;
    assign word_is_v = a_is_v_reg;
    assign word_addr = {a_half_reg, a_slot_reg, a_chunk_reg};
    assign word_data = a_data_reg;

    // stage b: exponent of the word, data part of its CRC
    wire [4:0] b_top;
    wire b_nonfinite;
    wire [31:0] b_crc;
    reg b_valid_reg;
    reg b_payload_reg;
    reg b_is_v_reg;
    reg b_half_reg;
    reg [6:0] b_slot_reg;
    reg b_first_chunk_reg;
    reg b_last_chunk_reg;
    reg b_page_first_reg;

    row_scan scan (
        .clk(clk),
        .s_data(a_data_reg),
        .s_half(a_pad_reg),
        .s_valid(a_valid_reg && a_beat_reg),
        .top(b_top),
        .nonfinite(b_nonfinite)
    );

    crc32c page_crc (
        .clk(clk),
        .s_data(a_data_reg),
        .s_valid(a_valid_reg && a_beat_reg),
        .late_valid(b_valid_reg),
        .late_stream(b_is_v_reg),
        .late_first(b_page_first_reg),
        .crc(b_crc)
    );

    always @(posedge clk) begin
        b_valid_reg <= a_valid_reg && !rst;
        if (a_valid_reg) begin
            b_payload_reg <= a_payload_reg;
            b_is_v_reg <= a_is_v_reg;
            b_half_reg <= a_half_reg;
            b_slot_reg <= a_slot_reg;
            b_first_chunk_reg <= a_chunk_reg == 3'd0;
            b_last_chunk_reg <= a_last_chunk_reg;
            b_page_first_reg <= a_page_first_reg;
        end
    end

    step_record step (
        .clk(clk),
        .rst(rst),
        .s_valid(a_valid_reg),
        .s_is_v(a_is_v_reg),
        .s_step_first(a_step_first_reg),
        .s_step_end(a_step_end_reg),
        .s_job_last(a_job_last_reg),
        .s_page_end(a_page_end_reg),
        .s_segment(a_segment_reg),
        .s_page(a_page_reg),
        .s_position({a_block_reg, a_slot_reg}),
        .s_error(a_error_reg),
        .s_new(a_new_reg),
        .s_word(a_word_reg),
        .s_words(a_words_reg),
        .s_words_after(a_words_after_reg),
        .late_crc(b_crc),
        .late_nonfinite(b_payload_reg && b_nonfinite),
        .record(record),
        .record_valid(record_valid)
    );

    // stage c: the row
    reg [4:0] row_top_reg;
    reg top_valid_reg;
    reg top_is_v_reg;
    reg [7:0] top_addr_reg;
    reg k_row_reg;
    reg v_row_reg;

    wire [4:0] row_top = b_first_chunk_reg || b_top > row_top_reg ? b_top : row_top_reg;

    assign top_valid = top_valid_reg;
    assign top_is_v = top_is_v_reg;
    assign top_addr = top_addr_reg;
    assign top = row_top_reg;
    assign k_row = k_row_reg;
    assign v_row = v_row_reg;

    always @(posedge clk) begin
        top_valid_reg <= b_valid_reg && b_payload_reg && b_last_chunk_reg && !rst;
        k_row_reg <= top_valid_reg && !top_is_v_reg && !rst;
        v_row_reg <= top_valid_reg && top_is_v_reg && !rst;
        if (b_valid_reg) begin
            if (b_payload_reg) row_top_reg <= row_top;
            top_is_v_reg <= b_is_v_reg;
            top_addr_reg <= {b_half_reg, b_slot_reg};
        end
    end

endmodule

`resetall
