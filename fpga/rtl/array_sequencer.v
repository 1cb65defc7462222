// SPDX-License-Identifier: Apache-2.0
// What the array does in each cycle. Walks units (a visit, 8 rows): K of the next unit before V of this one.
// Owns the release of the block buffers; knows nothing of values.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module array_sequencer (
    input wire clk,
    input wire rst,

    // see step_reader: {job_last, parity, half_last, chunks 4, groups - 1 3, block 14, slot 7, tokens 8}
    input wire [38:0] visit,
    input wire visit_valid,
    output wire visit_ready,
    // q of jobs of either parity is there
    input wire [1:0] loaded,
    // one more row of K can be read
    input wire k_row,
    output wire k_release,
    output wire v_release,

    // units whose K has been issued, for tile_top: {last group, half, weights, parity, group 3, slot 7, tokens 8}
    output wire [21:0] unit,
    output wire unit_valid,
    // pulse: one more tile can be walked; pulse: the last word of a tile's V has been issued
    input wire tile_ready,
    output wire tile_taken,

    // one operation per cycle
    output wire op_valid,
    output wire op_is_v,
    // buffers: {half, row 7, word 3}; half of the weight buffer
    output wire [10:0] op_addr,
    output wire op_weights,
    output wire op_parity,
    output wire [2:0] op_group,
    output wire [13:0] op_block,
    // K: first, last word of a row. V: first, last token of a tile
    output wire op_first,
    output wire op_last,
    // elements 16 to 31 are padding
    output wire op_pad,
    // V: the token is there; the tile's number modulo 4; words per row
    output wire op_present,
    output wire [1:0] op_tile,
    output wire [3:0] op_chunks,
    // K: last word of the unit. V: last word of the job
    output wire op_end,
    // V without a tile: only op_end counts
    output wire op_empty
);

    localparam [1:0] CHOOSE = 2'd0;
    localparam [1:0] WALK_K = 2'd1;
    localparam [1:0] WALK_V = 2'd2;
    localparam [1:0] EMPTY_V = 2'd3;

    wire [7:0] k_tokens = visit[7:0];
    wire [6:0] k_slot = visit[14:8];
    wire [13:0] k_block = visit[28:15];
    wire [2:0] k_groups = visit[31:29];
    wire [3:0] k_chunks = visit[35:32];
    wire k_pad = visit[36];
    wire k_parity = visit[37];
    wire k_job_last = visit[38];

    reg [1:0] state_reg;
    // units with K issued and V not
    reg [1:0] pending_reg;
    reg [2:0] k_group_reg;
    reg [7:0] k_token_reg;
    reg [2:0] k_chunk_reg;
    reg k_half_reg;
    reg k_weights_reg;
    // rows of K written, minus rows of visits that have been left
    reg [8:0] k_rows_reg;

    reg [2:0] v_tile_reg;
    reg [3:0] v_token_reg;
    reg [2:0] v_chunk_reg;
    reg v_half_reg;
    reg v_weights_reg;
    reg [1:0] v_number_reg;
    reg [2:0] tiles_reg;
    reg [4:0] wait_reg;
    reg v_inside_reg;

    // the unit whose V is next: {last group, job_last, parity, pad, chunks 4, group 3, slot 7, tokens 8}
    wire [25:0] v_unit;
    wire v_unit_valid;
    wire v_unit_room;
    wire [7:0] v_tokens = v_unit[7:0];
    wire [6:0] v_slot = v_unit[14:8];
    wire [2:0] v_group = v_unit[17:15];
    wire [3:0] v_chunks = v_unit[21:18];
    wire v_pad = v_unit[22];
    wire v_parity = v_unit[23];
    wire v_job_last = v_unit[24];
    wire v_group_last = v_unit[25];

    wire k_can_start = visit_valid && loaded[k_parity];
    wire k_nothing = k_tokens == 8'd0;
    wire k_there = k_rows_reg > {1'b0, k_token_reg};
    wire k_issue = state_reg == WALK_K && (k_there && !k_nothing);
    wire k_chunk_last = {1'b0, k_chunk_reg} + 4'd1 == k_chunks;
    wire k_unit_last = k_chunk_last && k_token_reg + 8'd1 == k_tokens;
    wire k_end = state_reg == WALK_K && (k_nothing || k_issue && k_unit_last);
    wire k_group_last = k_group_reg == k_groups;
    wire [6:0] k_row_addr = k_slot + k_token_reg[6:0];

    wire [1:0] walk_v = v_tokens == 8'd0 ? EMPTY_V : WALK_V;
    wire [2:0] v_tile = v_slot[6:4] + v_tile_reg;
    wire [7:0] v_end_slot = {1'b0, v_slot} + v_tokens;
    wire [7:0] v_place = {1'b0, v_tile, v_token_reg};
    wire v_tile_last = {1'b0, v_tile, 4'd15} + 8'd1 >= v_end_slot;
    wire v_chunk_last = {1'b0, v_chunk_reg} + 4'd1 == v_chunks;
    wire v_there = v_inside_reg || tiles_reg != 3'd0;
    wire v_issue = state_reg == WALK_V && v_there;
    wire v_tile_end = v_issue && v_token_reg == 4'd15 && v_chunk_last;
    wire v_empty_end = state_reg == EMPTY_V && wait_reg == 5'd16;
    wire v_end = v_tile_end && v_tile_last || v_empty_end;

    assign visit_ready = k_end && k_group_last;
    assign k_release = k_end && k_group_last;
    assign v_release = v_end && v_group_last;
    assign unit = {k_group_last, k_half_reg, k_weights_reg, k_parity, k_group_reg, k_slot, k_tokens};
    assign unit_valid = k_end;
    assign tile_taken = v_tile_end;

    fifo #(
        .WIDTH(26),
        .DEPTH(4)
    ) v_units (
        .clk(clk),
        .rst(rst),
        .s_data({k_group_last, k_job_last, k_parity, k_pad, k_chunks, k_group_reg, k_slot, k_tokens}),
        .s_valid(k_end),
        .s_ready(v_unit_room),
        .m_data(v_unit),
        .m_valid(v_unit_valid),
        .m_ready(v_end)
    );

    reg valid_reg;
    reg is_v_reg;
    reg [10:0] addr_reg;
    reg weights_reg;
    reg parity_reg;
    reg [2:0] group_reg;
    reg [13:0] block_reg;
    reg first_reg;
    reg last_reg;
    reg pad_reg;
    reg present_reg;
    reg [1:0] number_reg;
    reg [3:0] chunks_reg;
    reg end_reg;
    reg empty_reg;

    assign op_valid = valid_reg;
    assign op_is_v = is_v_reg;
    assign op_addr = addr_reg;
    assign op_weights = weights_reg;
    assign op_parity = parity_reg;
    assign op_group = group_reg;
    assign op_block = block_reg;
    assign op_first = first_reg;
    assign op_last = last_reg;
    assign op_pad = pad_reg;
    assign op_present = present_reg;
    assign op_tile = number_reg;
    assign op_chunks = chunks_reg;
    assign op_end = end_reg;
    assign op_empty = empty_reg;

    always @(posedge clk) begin
        valid_reg <= k_issue || v_issue || v_empty_end;
        if (k_issue) begin
            is_v_reg <= 1'b0;
            addr_reg <= {k_half_reg, k_row_addr, k_chunk_reg};
            weights_reg <= k_weights_reg;
            parity_reg <= k_parity;
            group_reg <= k_group_reg;
            block_reg <= k_block;
            first_reg <= k_chunk_reg == 3'd0;
            last_reg <= k_chunk_last;
            pad_reg <= k_pad && k_chunk_last;
            present_reg <= 1'b1;
            chunks_reg <= k_chunks;
            end_reg <= k_unit_last;
            empty_reg <= 1'b0;
        end
        if (v_issue || v_empty_end) begin
            is_v_reg <= 1'b1;
            addr_reg <= {v_half_reg, v_tile, v_token_reg, v_chunk_reg};
            weights_reg <= v_weights_reg;
            parity_reg <= v_parity;
            group_reg <= v_group;
            first_reg <= v_token_reg == 4'd0 || v_empty_end;
            last_reg <= v_token_reg == 4'd15 || v_empty_end;
            pad_reg <= v_pad && v_chunk_last;
            present_reg <= v_place >= {1'b0, v_slot} && v_place < v_end_slot && !v_empty_end;
            number_reg <= v_number_reg;
            chunks_reg <= v_chunks;
            end_reg <= v_end && v_job_last && v_group_last;
            empty_reg <= v_empty_end;
        end

        // V follows K without a pause when two units are ahead, K follows V when a visit waits
        case (state_reg)
            CHOOSE:
            if (pending_reg != 2'd2 && k_can_start) state_reg <= WALK_K;
            else if (pending_reg != 2'd0 && v_unit_valid) state_reg <= walk_v;
            WALK_K: if (k_end) state_reg <= pending_reg == 2'd1 && v_unit_valid ? walk_v : CHOOSE;
            default: if (v_end) state_reg <= k_can_start ? WALK_K : CHOOSE;
        endcase

        if (k_issue) begin
            k_chunk_reg <= k_chunk_last ? 3'd0 : k_chunk_reg + 3'd1;
            if (k_chunk_last) k_token_reg <= k_token_reg + 8'd1;
        end
        if (k_end) begin
            k_token_reg <= 8'd0;
            k_weights_reg <= !k_weights_reg;
            k_group_reg <= k_group_last ? 3'd0 : k_group_reg + 3'd1;
            if (k_group_last) k_half_reg <= !k_half_reg;
        end
        k_rows_reg <= k_rows_reg + {8'd0, k_row} - (k_release ? {1'b0, k_tokens} : 9'd0);

        if (v_issue) begin
            v_inside_reg <= !v_tile_end;
            v_token_reg <= v_token_reg + 4'd1;
            if (v_token_reg == 4'd15) v_chunk_reg <= v_chunk_last ? 3'd0 : v_chunk_reg + 3'd1;
            if (v_tile_end) begin
                v_tile_reg <= v_tile_last ? 3'd0 : v_tile_reg + 3'd1;
                v_number_reg <= v_number_reg + 2'd1;
            end
        end
        if (v_end) begin
            v_weights_reg <= !v_weights_reg;
            if (v_group_last) v_half_reg <= !v_half_reg;
        end
        wait_reg <= state_reg == EMPTY_V ? wait_reg + 5'd1 : 5'd0;
        tiles_reg <= tiles_reg + {2'd0, tile_ready} - {2'd0, v_tile_end};
        pending_reg <= pending_reg + {1'b0, k_end} - {1'b0, v_end};

        if (rst) begin
            state_reg <= CHOOSE;
            valid_reg <= 1'b0;
            pending_reg <= 2'd0;
            k_group_reg <= 3'd0;
            k_token_reg <= 8'd0;
            k_chunk_reg <= 3'd0;
            k_half_reg <= 1'b0;
            k_weights_reg <= 1'b0;
            k_rows_reg <= 9'd0;
            v_tile_reg <= 3'd0;
            v_token_reg <= 4'd0;
            v_chunk_reg <= 3'd0;
            v_half_reg <= 1'b0;
            v_weights_reg <= 1'b0;
            v_number_reg <= 2'd0;
            v_inside_reg <= 1'b0;
            tiles_reg <= 3'd0;
            wait_reg <= 5'd0;
        end
    end

endmodule

`resetall
