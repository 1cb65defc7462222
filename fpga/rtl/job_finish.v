// SPDX-License-Identifier: Apache-2.0
// What a sound job writes: tail copies, state, output or identity, in this order; all of it is answered before the job
// is done. Does not write the status.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module job_finish (
    input wire clk,
    input wire rst,

    // pulse; the job stays until `done`
    input wire start,
    input wire [2047:0] job,
    input wire [3:0] chunks,
    input wire parity,
    input wire big,
    // pulse; the others are valid with it
    output wire done,
    output wire faulty,
    output wire [255:0] fault,

    // reader on ctl for the new rows
    output wire [57:0] cmd_word,
    output wire [24:0] cmd_count,
    output wire cmd_valid,
    input wire cmd_ready,
    input wire [511:0] r_data,
    input wire r_error,
    input wire r_valid,
    output wire r_ready,

    // see bin_store, tile_top: data one cycle after an accepted read
    output wire f_valid,
    input wire f_ready,
    output wire [9:0] f_addr,
    output wire [6:0] f_row,
    input wire [2399:0] bins,
    input wire [149:0] l_bins,
    input wire seen,
    input wire [19:0] top,

    // see axi_write
    output wire [57:0] w_word,
    output wire [511:0] w_data,
    output wire w_valid,
    input wire w_ready,
    input wire w_idle,
    input wire w_failed,
    input wire [57:0] w_failed_word
);

    // parts of a job's result
    localparam [2:0] IDLE = 3'd0;
    localparam [2:0] TAIL_K = 3'd1;
    localparam [2:0] TAIL_V = 3'd2;
    localparam [2:0] STATE = 3'd3;
    localparam [2:0] OUTPUT = 3'd4;
    localparam [2:0] END = 3'd5;

    wire identify = job[`NK_JOB_OPCODE_LSB+:32] == `NK_OPCODE_IDENTIFY;
    wire raw = job[`NK_JOB_FLAGS_LSB];
    wire [6:0] rows = job[`NK_JOB_ROWS_LSB+:7];
    wire [6:0] new_tokens = job[`NK_JOB_NEW_TOKENS_LSB+:7];
    wire [63:0] tail_k = job[`NK_JOB_TAIL_K_ADDR_LSB+:64];
    wire [63:0] tail_v = job[`NK_JOB_TAIL_V_ADDR_LSB+:64];
    wire [63:0] state_out = job[`NK_JOB_STATE_OUT_LSB+:64];
    wire [63:0] out_addr = job[`NK_JOB_OUT_ADDR_LSB+:64];

    reg [2:0] part_reg;
    // a part begins; it has been handed to the writer
    reg enter_reg;
    reg [57:0] word_reg;
    reg [24:0] left_reg;
    reg cmd_valid_reg;
    reg [57:0] cmd_word_reg;
    reg [57:0] tail_word_reg;
    reg read_error_reg;
    reg [57:0] read_error_word_reg;

    wire tail = part_reg == TAIL_K || part_reg == TAIL_V;
    wire integers = part_reg == STATE || raw;
    wire [10:0] row_words = {4'd0, rows} * {7'd0, chunks};
    wire [10:0] new_words = {4'd0, new_tokens} * {7'd0, chunks};
    wire [6:0] state_last = (rows + 7'd1) >> 1;
    wire [6:0] output_last = (rows + 7'd7) >> 3;
    wire [24:0] state_words = {11'd0, row_words, 3'd0} + {12'd0, row_words, 2'd0} + {18'd0, state_last};
    wire [24:0] output_words = {13'd0, row_words, 1'b0} + {18'd0, output_last};

    reg [63:0] target;
    reg [24:0] count;

    always @* begin
        case (part_reg)
            TAIL_K: target = tail_k;
            TAIL_V: target = tail_v;
            STATE: target = state_out;
            default: target = out_addr;
        endcase
        case (part_reg)
            TAIL_K, TAIL_V: count = {14'd0, new_words};
            STATE: count = state_words;
            default: count = identify ? 25'd1 : raw ? state_words : output_words;
        endcase
        if (target == 64'd0 || identify && part_reg != OUTPUT) count = 25'd0;
    end

    wire [511:0] word_data;
    wire word_valid;
    wire writing = part_reg != IDLE && part_reg != END && !enter_reg && left_reg != 25'd0;

    bin_words words (
        .clk(clk),
        .rst(rst),
        .start(enter_reg && !tail && !identify && count != 25'd0),
        .integers(integers),
        .rows(rows),
        .chunks(chunks),
        .parity(parity),
        .big(big),
        .f_valid(f_valid),
        .f_ready(f_ready),
        .f_addr(f_addr),
        .f_row(f_row),
        .bins(bins),
        .l_bins(l_bins),
        .seen(seen),
        .top(top),
        .m_data(word_data),
        .m_valid(word_valid),
        .m_ready(w_ready && writing && !tail && !identify)
    );

    wire [511:0] identity = {
        128'd0, 32'd0, `NK_TILE_TOKENS, `NK_BLOCK_TOKENS, 32'd6, 32'd1, (32'd1 << `NK_HEAD_SIZE_COUNT) - 32'd1,
        `NK_ROWS_MAX, `NK_LANES, `NK_IMPLEMENTATION_RTL, `NK_REGMAP_HASH, `NK_CONTRACT_VERSION, `NK_IDENTITY_MAGIC
    };
    wire source_valid = tail ? r_valid && !cmd_valid_reg : identify ? part_reg == OUTPUT : word_valid;
    wire put = w_valid && w_ready;

    assign w_word = word_reg;
    assign w_data = tail ? r_data : identify ? identity : word_data;
    assign w_valid = writing && source_valid;
    assign r_ready = tail && writing && w_ready && !cmd_valid_reg;
    assign cmd_word = cmd_word_reg;
    assign cmd_count = left_reg;
    assign cmd_valid = cmd_valid_reg;

    // the last part ends when all words have been answered
    wire part_done = part_reg != IDLE && part_reg != END && !enter_reg && left_reg == 25'd0 &&
        (w_idle || part_reg != OUTPUT);
    wire failed = w_failed || read_error_reg;
    assign done = part_reg == END;
    assign faulty = failed;
    assign fault = {
        w_failed ? w_failed_word : read_error_word_reg, 6'd0, w_failed ? `NK_MASTER_OUT : `NK_MASTER_CTL,
        {4{`NK_NOT_APPLICABLE}}, w_failed ? `NK_STATUS_AXI_WRITE : `NK_STATUS_AXI_READ
    };

    always @(posedge clk) begin
        if (cmd_valid_reg && cmd_ready) cmd_valid_reg <= 1'b0;
        if (enter_reg) begin
            enter_reg <= 1'b0;
            word_reg <= target[63:6];
            left_reg <= count;
            cmd_valid_reg <= tail && count != 25'd0;
            cmd_word_reg <= part_reg == TAIL_K ? job[`NK_JOB_NEW_K_ADDR_LSB+6+:58] :
                job[`NK_JOB_NEW_V_ADDR_LSB+6+:58];
            tail_word_reg <= part_reg == TAIL_K ? job[`NK_JOB_NEW_K_ADDR_LSB+6+:58] :
                job[`NK_JOB_NEW_V_ADDR_LSB+6+:58];
        end
        if (put) begin
            word_reg <= word_reg + 58'd1;
            left_reg <= left_reg - 25'd1;
        end
        if (tail && put) begin
            tail_word_reg <= tail_word_reg + 58'd1;
            if (r_error && !read_error_reg) begin
                read_error_reg <= 1'b1;
                read_error_word_reg <= tail_word_reg;
            end
        end

        if (part_done) begin
            part_reg <= failed ? END : part_reg + 3'd1;
            enter_reg <= !failed && part_reg != OUTPUT;
        end
        if (part_reg == END) part_reg <= IDLE;
        if (start) begin
            part_reg <= TAIL_K;
            enter_reg <= 1'b1;
            read_error_reg <= 1'b0;
        end
        if (rst) begin
            part_reg <= IDLE;
            enter_reg <= 1'b0;
            cmd_valid_reg <= 1'b0;
        end
    end

endmodule

`resetall
