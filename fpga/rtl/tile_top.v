// SPDX-License-Identifier: Apache-2.0
// The top R of each tile for 8 rows (highest I + eV of its visible tokens), Rl (highest I), and each row's T. Runs one
// tile ahead of the array; leaves a descriptor that the array and the bins read. Keeps T of all rows of two jobs.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module tile_top (
    input wire clk,
    input wire rst,

    // see array_sequencer: {last group, half, weights, parity, group 3, slot 7, tokens 8}. The slot is a multiple of 16:
    // a visit starts at a block or at a segment that does not follow, and the contract wants those at such positions
    input wire [21:0] unit,
    input wire unit_valid,
    // pulses: the weights of one more unit are there, one more row of V, the array has left a tile
    input wire weights_done,
    input wire v_row,
    input wire tile_taken,
    output wire tile_ready,

    // weights: {half, row}; I and visible of 8 rows, one cycle later
    output wire [7:0] w_addr,
    input wire [8*25-1:0] w_whole,
    // exponent fields of V rows, one cycle later
    output wire [7:0] t_addr,
    input wire [4:0] t_top,

    // descriptors, one cycle later, 8 rows: {any, shift of old bins 2, of L 2, of O 2, Rl 24, R + 14 25}
    input wire [1:0] a_tile,
    output wire [8*56-1:0] a_descriptor,
    input wire [1:0] b_tile,
    output wire [8*56-1:0] b_descriptor,

    // T of a row at the start of its job
    input wire w_parity,
    input wire [5:0] s_row,
    input wire s_seen,
    input wire [19:0] s_top,
    input wire s_valid,
    output wire s_ready,
    // T of a row at its end, one cycle later
    input wire [6:0] f_row,
    output wire f_seen,
    output wire [19:0] f_top
);

    localparam [1:0] IDLE = 2'd0;
    localparam [1:0] WAIT = 2'd1;
    localparam [1:0] SCAN = 2'd2;
    localparam [1:0] STORE = 2'd3;

    wire [21:0] head;
    wire head_valid;
    wire head_take;
    wire room;

    fifo #(
        .WIDTH(22),
        .DEPTH(4)
    ) units (
        .clk(clk),
        .rst(rst),
        .s_data(unit),
        .s_valid(unit_valid),
        .s_ready(room),
        .m_data(head),
        .m_valid(head_valid),
        .m_ready(head_take)
    );

    wire [7:0] tokens = head[7:0];
    wire [6:0] slot = head[14:8];
    wire [2:0] group = head[17:15];
    wire parity = head[18];
    wire weights = head[19];
    wire half = head[20];
    wire group_last = head[21];

    reg [1:0] state_reg;
    reg [2:0] tile_reg;
    reg [4:0] step_reg;
    reg [1:0] number_reg;
    reg [2:0] ahead_reg;
    reg [1:0] units_done_reg;
    // rows of V written; rows of the visits before this unit's
    reg [9:0] rows_reg;
    reg [9:0] base_reg;

    wire [2:0] tile = slot[6:4] + tile_reg;
    wire [7:0] end_slot = {1'b0, slot} + tokens;
    wire [7:0] tile_end = {1'b0, tile, 4'd15} + 8'd1;
    wire last_tile = tile_end >= end_slot;
    wire [7:0] place = {1'b0, tile, step_reg[3:0]};
    // the row at this place has been written, or there is none
    wire [9:0] written = rows_reg - base_reg;
    wire [7:0] nth = place - {1'b0, slot};
    wire there = place >= end_slot || written > {2'd0, nth};
    wire nothing = tokens == 8'd0;
    wire stored = state_reg == STORE && step_reg == 5'd2;
    wire unit_end = stored && last_tile;

    assign head_take = unit_end || state_reg == IDLE && head_valid && nothing;
    assign w_addr = {weights, tile, step_reg[3:0]};
    assign t_addr = {half, tile, step_reg[3:0]};
    assign tile_ready = stored;

    // one cycle after the address
    reg scan_valid_reg;
    reg scan_first_reg;
    wire [7:0] store_mask = {8{stored}};

    genvar r;
    generate
        for (r = 0; r < 8; r = r + 1) begin : row
            localparam [2:0] SLOT = r;
            reg any_reg;
            reg signed [24:0] r_reg;
            reg signed [23:0] rl_reg;
            reg signed [19:0] o_bin_reg;
            reg signed [19:0] l_bin_reg;
            reg signed [19:0] t_new_reg;
            reg old_seen_reg;
            reg signed [19:0] old_t_reg;
            reg seen_reg;
            reg signed [19:0] t_reg;
            reg [20:0] t_mem[0:15];
            reg [20:0] f_reg;
            reg [55:0] descriptor_mem[0:3];
            reg [55:0] a_reg;
            reg [55:0] b_reg;

            wire visible = w_whole[r*25+24];
            wire signed [23:0] whole = w_whole[r*25+:24];
            wire signed [24:0] sum = {whole[23], whole} + {20'd0, t_top};
            wire count = scan_valid_reg && visible;
            wire fresh = scan_first_reg || !any_reg;
            // bins (R + 5) >> 5 and (Rl + 5) >> 5
            wire signed [24:0] r_above = r_reg - 25'sd9;
            wire signed [24:0] rl_above = {rl_reg[23], rl_reg} + 25'sd5;
            wire signed [19:0] own = $signed(r_above[24:5]) > $signed(rl_above[24:5]) ? r_above[24:5] : rl_above[24:5];
            wire signed [20:0] up_old = {t_new_reg[19], t_new_reg} - {old_t_reg[19], old_t_reg};
            wire signed [20:0] up_o = {t_new_reg[19], t_new_reg} - {o_bin_reg[19], o_bin_reg};
            wire signed [20:0] up_l = {t_new_reg[19], t_new_reg} - {l_bin_reg[19], l_bin_reg};
            wire [1:0] shift_old = !old_seen_reg || up_old > 21'sd3 ? 2'd3 : up_old[1:0];
            wire [1:0] shift_o = up_o > 21'sd3 ? 2'd3 : up_o[1:0];
            wire [1:0] shift_l = up_l > 21'sd3 ? 2'd3 : up_l[1:0];
            wire t_write = store_mask[r] && any_reg;

            assign a_descriptor[r*56+:56] = a_reg;
            assign b_descriptor[r*56+:56] = b_reg;

            always @(posedge clk) begin
                if (scan_valid_reg) begin
                    any_reg <= scan_first_reg ? visible : any_reg || visible;
                    if (count && (fresh || sum > r_reg)) r_reg <= sum;
                    if (count && (fresh || whole > rl_reg)) rl_reg <= whole;
                end
                {seen_reg, t_reg} <= t_mem[{parity, group}];
                if (state_reg == STORE && step_reg == 5'd1) begin
                    o_bin_reg <= r_above[24:5];
                    l_bin_reg <= rl_above[24:5];
                    t_new_reg <= seen_reg && t_reg > own ? t_reg : own;
                    old_seen_reg <= seen_reg;
                    old_t_reg <= t_reg;
                end
                if (store_mask[r])
                    descriptor_mem[number_reg] <= {any_reg, shift_old, shift_l, shift_o, rl_reg, r_reg};
                if (t_write) t_mem[{parity, group}] <= {1'b1, t_new_reg};
                else if (s_valid && s_ready && s_row[2:0] == SLOT)
                    t_mem[{w_parity, s_row[5:3]}] <= {s_seen, s_top};
                if (f_row[2:0] == SLOT) f_reg <= t_mem[f_row[6:3]];
                a_reg <= descriptor_mem[a_tile];
                b_reg <= descriptor_mem[b_tile];
            end
        end
    endgenerate

    // T of the row asked for
    reg [2:0] f_slot_reg;
    wire [8*21-1:0] f_all = {
        row[7].f_reg, row[6].f_reg, row[5].f_reg, row[4].f_reg, row[3].f_reg, row[2].f_reg, row[1].f_reg, row[0].f_reg
    };
    wire [20:0] f_one = f_all[f_slot_reg*21+:21];

    assign f_seen = f_one[20];
    assign f_top = f_one[19:0];
    assign s_ready = !stored;

    always @(posedge clk) begin
        f_slot_reg <= f_row[2:0];
        scan_valid_reg <= state_reg == SCAN && there && place >= {1'b0, slot} && place < end_slot;
        if (state_reg == SCAN) scan_first_reg <= place == {1'b0, slot} || step_reg == 5'd0;

        case (state_reg)
            IDLE:
            if (head_valid && !nothing && units_done_reg != 2'd0) begin
                state_reg <= WAIT;
                tile_reg <= 3'd0;
            end
            WAIT: begin
                step_reg <= 5'd0;
                if (ahead_reg < 3'd2) state_reg <= SCAN;
            end
            SCAN:
            if (there) begin
                step_reg <= step_reg + 5'd1;
                if (step_reg == 5'd15) begin
                    state_reg <= STORE;
                    step_reg <= 5'd0;
                end
            end
            default: begin
                step_reg <= step_reg + 5'd1;
                if (stored) begin
                    number_reg <= number_reg + 2'd1;
                    tile_reg <= tile_reg + 3'd1;
                    state_reg <= last_tile ? IDLE : WAIT;
                end
            end
        endcase

        units_done_reg <= units_done_reg + {1'b0, weights_done} - {1'b0, unit_end};
        rows_reg <= rows_reg + {9'd0, v_row};
        if (unit_end && group_last) base_reg <= base_reg + {2'd0, tokens};
        ahead_reg <= ahead_reg + {2'd0, stored} - {2'd0, tile_taken};

        if (rst) begin
            state_reg <= IDLE;
            scan_valid_reg <= 1'b0;
            number_reg <= 2'd0;
            ahead_reg <= 3'd0;
            units_done_reg <= 2'd0;
            rows_reg <= 10'd0;
            base_reg <= 10'd0;
        end
    end

endmodule

`resetall
