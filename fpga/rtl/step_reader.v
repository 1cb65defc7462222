// SPDX-License-Identifier: Apache-2.0
// Orders the reads of K and V: K of the next visit before V of this one, across jobs. Turns pieces into read commands
// and tasks, and tells the array which visits come. Does not see the data.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module step_reader (
    input wire clk,
    input wire rst,

    // see segment_walk
    input wire [207:0] piece,
    input wire piece_valid,
    output wire piece_ready,
    // no piece will come before the next job
    input wire walk_idle,

    // readers on kv and, for new rows, on ctl
    output wire [57:0] cmd_word,
    output wire [24:0] cmd_count,
    output wire kv_cmd_valid,
    input wire kv_cmd_ready,
    output wire new_cmd_valid,
    input wire new_cmd_ready,

    // {is_v, visit_first, visit_last, job_last, half_last, chunks 4, is_new, checked, tokens 8, slot 7, block 14,
    //  words before 6, words after 6, segment 18, page 19, first word read 58}
    output wire [146:0] task_data,
    output wire task_valid,
    input wire task_ready,

    // {job_last, parity, half_last, chunks 4, groups - 1 3, block 14, slot of the first token 7, tokens 8}
    output wire [38:0] visit,
    output wire visit_valid,
    input wire visit_ready
);

    wire [149:0] v_piece;
    wire v_valid;
    wire v_room;
    // K steps that have been asked for without their V, and the step at hand
    reg [1:0] ahead_reg;
    reg inside_reg;
    reg in_v_reg;
    reg [7:0] visit_tokens_reg;
    reg [6:0] visit_slot_reg;

    // Between steps: V when two K are ahead, or when no K will come; else K.
    wire choose_v = inside_reg ? in_v_reg : ahead_reg == 2'd2 || ahead_reg == 2'd1 && !piece_valid && walk_idle;
    wire [149:0] head = choose_v ? v_piece : piece[207:58];
    wire [57:0] payload_word = choose_v ? v_piece[57:0] : piece[115:58];
    wire head_valid = choose_v ? v_valid : piece_valid && ahead_reg != 2'd2;

    wire visit_first = head[149];
    wire visit_last = head[148];
    wire job_last = head[147];
    wire parity = head[146];
    wire half_last = head[145];
    wire [3:0] chunks = head[144:141];
    wire [2:0] groups = head[140:138];
    wire is_new = head[137];
    wire checked = head[136];
    wire [7:0] tokens = head[135:128];
    wire [6:0] slot = head[127:121];
    wire [13:0] block = head[120:107];
    wire [5:0] before = head[106:101];
    wire [5:0] after = head[100:95];

    wire [10:0] words = {3'd0, tokens} * {7'd0, chunks};
    wire [10:0] count = words + {5'd0, before} + {5'd0, after};
    wire [7:0] visit_tokens = (visit_first ? 8'd0 : visit_tokens_reg) + tokens;
    wire announce = !choose_v && visit_last;

    // Command, task, V piece and visit go out in one cycle, so a VALID here waits for the other READYs. None of those may
    // wait for a VALID: they are of readers and FIFOs, which know theirs beforehand.
    wire cmd_room = is_new ? new_cmd_ready : kv_cmd_ready;
    wire fire = head_valid && cmd_room && task_ready && (choose_v || v_room) && (!announce || visit_ready);

    assign piece_ready = fire && !choose_v;
    assign cmd_word = payload_word - {52'd0, before};
    assign cmd_count = {14'd0, count};
    assign kv_cmd_valid = fire && !is_new;
    assign new_cmd_valid = fire && is_new;
    assign task_data = {
        choose_v, visit_first, visit_last, job_last, half_last, chunks, is_new, checked, tokens, slot, block, before,
        after, head[94:58], cmd_word
    };
    assign task_valid = fire;
    assign visit = {
        job_last, parity, half_last, chunks, groups, block, visit_first ? slot : visit_slot_reg, visit_tokens
    };
    assign visit_valid = fire && announce;

    // V pieces wait here; two visits of at most 128 pieces
    fifo #(
        .WIDTH(150),
        .DEPTH(512)
    ) v_pieces (
        .clk(clk),
        .rst(rst),
        .s_data({piece[207:116], piece[57:0]}),
        .s_valid(fire && !choose_v),
        .s_ready(v_room),
        .m_data(v_piece),
        .m_valid(v_valid),
        .m_ready(fire && choose_v)
    );

    always @(posedge clk) begin
        if (fire) begin
            inside_reg <= !visit_last;
            in_v_reg <= choose_v;
            if (!choose_v) begin
                visit_tokens_reg <= visit_tokens;
                if (visit_first) visit_slot_reg <= slot;
            end
            if (visit_last) ahead_reg <= choose_v ? ahead_reg - 2'd1 : ahead_reg + 2'd1;
        end
        if (rst) begin
            ahead_reg <= 2'd0;
            inside_reg <= 1'b0;
        end
    end

endmodule

`resetall
