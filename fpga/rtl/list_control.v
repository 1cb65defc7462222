// SPDX-License-Identifier: Apache-2.0
// A list from START to DONE: its jobs end in order, each gets its status, and the first fault ends the list. Clears
// everything behind the readers after a fault. Does not touch data.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module list_control (
    input wire clk,
    input wire rst,

    // see control_registers
    input wire list_start,
    input wire [63:0] kv_register,
    input wire [63:0] ctl_register,
    input wire [63:0] out_register,
    output wire list_accepted,
    output wire list_done,
    // the pointers of the list at hand
    output wire [63:0] kv,
    output wire [63:0] ctl,
    output wire [63:0] out,

    // see job_prepare
    output wire prepare_list,
    output wire prepare_job,
    output wire [12:0] prepare_index,
    output wire prepare_alone,
    output wire prepare_free,
    input wire prepare_enters,
    input wire prepare_walkable,
    input wire prepare_done,
    input wire prepare_faulty,
    input wire [255:0] prepare_fault,
    input wire [12:0] jobs,

    // hand the job at hand to the walk and to job_finish; the array may begin with jobs of this parity
    output wire [1:0] loaded,
    output wire walk_valid,
    output wire walk_parity,
    input wire walk_ready,
    output wire walk_refused,
    input wire walk_failed,
    input wire [57:0] walk_failed_word,

    // see step_judge; pulse from bin_update
    input wire job_sound,
    output wire job_taken,
    input wire [31:0] beats,
    input wire judge_faulty,
    input wire [255:0] judge_fault,
    input wire bins_done,

    // see job_finish
    output wire finish_start,
    output wire finish_parity,
    input wire finish_done,
    input wire finish_faulty,
    input wire [255:0] finish_fault,
    // a visible score of the job was clamped, by parity
    input wire [1:0] clamped,

    // readers drop what they have; everything behind them starts anew
    output wire flush,
    output wire clear,
    input wire readers_idle,

    // statuses, see axi_write
    output wire [57:0] w_word,
    output wire [511:0] w_data,
    output wire w_valid,
    input wire w_ready,
    input wire w_idle,
    input wire w_failed,
    output wire w_clear
);

    localparam [3:0] IDLE = 4'd0;
    localparam [3:0] HEADER = 4'd1;
    localparam [3:0] RUN = 4'd2;
    localparam [3:0] FINISH = 4'd3;
    localparam [3:0] STATUS = 4'd4;
    localparam [3:0] STATUS_WAIT = 4'd5;
    localparam [3:0] FLUSH = 4'd6;
    localparam [3:0] CLEAR = 4'd7;
    localparam [3:0] END = 4'd8;

    reg [3:0] state_reg;
    reg [63:0] kv_reg;
    reg [63:0] ctl_reg;
    reg [63:0] out_reg;
    // the job that ends next
    reg [12:0] ending_reg;
    reg [1:0] bins_done_reg;
    reg [63:0] cycles_reg;
    reg [31:0] beats_reg;
    reg fault_reg;
    reg [255:0] fault_data_reg;
    reg whole_list_reg;
    reg [5:0] count_reg;

    reg prepare_list_reg;
    reg accepted_reg;
    reg done_reg;
    reg finish_start_reg;
    reg w_valid_reg;
    reg w_clear_reg;

    wire prepare_ended;
    wire refused;
    wire handing;
    wire [12:0] handed;
    wire last_job = ending_reg + 13'd1 == jobs;
    // faults found ahead wait for the jobs before, and those of the walk for the job's own preparation
    wire ending_loaded = prepare_index != ending_reg;
    wire prepare_refused = refused && !ending_loaded;
    wire walk_lost = walk_failed && handed == ending_reg + 13'd1 && ending_loaded;
    wire can_finish = job_sound && bins_done_reg != 2'd0 && !walk_lost;
    wire step_refused = judge_faulty && ending_loaded;
    wire [31:0] na = `NK_NOT_APPLICABLE;

    // {address, beats, cycles, flags, detail, position, kind, page, segment, job, code}
    wire [31:0] job_field = whole_list_reg ? na : {19'd0, ending_reg};
    wire [31:0] flags = clamped[ending_reg[0]] && !fault_reg ? `NK_STATUS_FLAG_SATURATED : 32'd0;
    wire not_run = fault_reg && fault_data_reg[31:0] == `NK_STATUS_NOT_RUN;
    wire [511:0] status = {
        64'd0, fault_reg ? fault_data_reg[255:192] : 64'd0, 32'd0, beats_reg, not_run ? 64'd0 : cycles_reg, flags,
        fault_reg ? fault_data_reg[191:32] : {5{na}}, job_field, fault_reg ? fault_data_reg[31:0] : `NK_STATUS_OK
    };

    job_turns turns (
        .clk(clk),
        .rst(rst),
        .idle(state_reg == IDLE),
        .clear(state_reg == CLEAR),
        .header(state_reg == HEADER),
        .run((state_reg == RUN || state_reg == FINISH || state_reg == STATUS || state_reg == STATUS_WAIT) && !fault_reg),
        .written(state_reg == STATUS_WAIT),
        .start(list_start && state_reg == IDLE),
        .ending(ending_reg),
        .jobs(jobs),
        .prepare_job(prepare_job),
        .prepare_index(prepare_index),
        .prepare_free(prepare_free),
        .prepare_enters(prepare_enters),
        .prepare_walkable(prepare_walkable),
        .prepare_done(prepare_done),
        .prepare_faulty(prepare_faulty),
        .ended(prepare_ended),
        .refused(refused),
        .walk_refused(walk_refused),
        .loaded(loaded),
        .handing(handing),
        .walk_ready(walk_ready),
        .handed(handed)
    );

    assign list_accepted = accepted_reg;
    assign list_done = done_reg;
    assign kv = kv_reg;
    assign ctl = ctl_reg;
    assign out = out_reg;
    assign prepare_list = prepare_list_reg;
    assign prepare_alone = prepare_index == ending_reg && state_reg == RUN;
    assign walk_valid = handing && !flush;
    assign walk_parity = prepare_index[0];
    assign job_taken = finish_start_reg;
    assign finish_start = finish_start_reg;
    assign finish_parity = ending_reg[0];
    assign flush = state_reg == FLUSH || state_reg == CLEAR;
    assign clear = state_reg == CLEAR;
    assign w_word = out_reg[63:6] + {45'd0, ending_reg};
    assign w_data = status;
    assign w_valid = w_valid_reg;
    assign w_clear = w_clear_reg;

    always @(posedge clk) begin
        prepare_list_reg <= 1'b0;
        accepted_reg <= 1'b0;
        done_reg <= 1'b0;
        finish_start_reg <= 1'b0;
        w_clear_reg <= 1'b0;
        cycles_reg <= cycles_reg + 64'd1;
        bins_done_reg <= bins_done_reg + {1'b0, bins_done} - {1'b0, finish_start_reg};

        case (state_reg)
            IDLE: begin
                cycles_reg <= 64'd0;
                ending_reg <= 13'd0;
                bins_done_reg <= 2'd0;
                fault_reg <= 1'b0;
                whole_list_reg <= 1'b0;
                beats_reg <= 32'd0;
                if (list_start) begin
                    state_reg <= HEADER;
                    kv_reg <= kv_register;
                    ctl_reg <= ctl_register;
                    out_reg <= out_register;
                    prepare_list_reg <= 1'b1;
                    w_clear_reg <= 1'b1;
                end
            end
            HEADER:
            if (prepare_ended) begin
                accepted_reg <= 1'b1;
                state_reg <= prepare_faulty ? FLUSH : RUN;
                fault_reg <= prepare_faulty;
                fault_data_reg <= prepare_fault;
                whole_list_reg <= prepare_faulty;
            end
            RUN:
            if (can_finish) begin
                state_reg <= FINISH;
                finish_start_reg <= 1'b1;
                beats_reg <= beats;
            end else if (step_refused || walk_lost || prepare_refused) begin
                state_reg <= FLUSH;
                fault_reg <= 1'b1;
                fault_data_reg <= prepare_refused ? prepare_fault :
                    step_refused ? judge_fault :
                    {walk_failed_word, 6'd0, `NK_MASTER_CTL, {4{na}}, `NK_STATUS_AXI_READ};
                beats_reg <= prepare_refused ? 32'd0 : beats;
            end
            FINISH:
            if (finish_done) begin
                state_reg <= finish_faulty ? FLUSH : STATUS;
                fault_reg <= finish_faulty;
                fault_data_reg <= finish_fault;
                w_valid_reg <= !finish_faulty;
                w_clear_reg <= 1'b1;
            end
            // everything that is owed comes in; then nothing of the walk is left
            FLUSH: begin
                count_reg <= 6'd0;
                if (readers_idle && w_idle) state_reg <= CLEAR;
            end
            CLEAR: begin
                count_reg <= count_reg + 6'd1;
                w_clear_reg <= 1'b1;
                if (count_reg == 6'd63) begin
                    state_reg <= STATUS;
                    w_valid_reg <= 1'b1;
                end
            end
            STATUS:
            if (w_ready) begin
                w_valid_reg <= 1'b0;
                cycles_reg <= 64'd0;
                state_reg <= STATUS_WAIT;
            end
            STATUS_WAIT:
            if (w_idle) begin
                w_clear_reg <= 1'b1;
                if (last_job || whole_list_reg) state_reg <= END;
                else if (fault_reg || w_failed) begin
                    // what follows is not run; the walk of the next job may have begun
                    state_reg <= fault_reg ? STATUS : FLUSH;
                    w_valid_reg <= fault_reg;
                    fault_reg <= 1'b1;
                    fault_data_reg <= {64'd0, {5{na}}, `NK_STATUS_NOT_RUN};
                    beats_reg <= 32'd0;
                    ending_reg <= ending_reg + 13'd1;
                end else begin
                    state_reg <= RUN;
                    ending_reg <= ending_reg + 13'd1;
                end
            end
            default: begin
                done_reg <= 1'b1;
                state_reg <= IDLE;
            end
        endcase

        if (rst) begin
            state_reg <= IDLE;
            prepare_list_reg <= 1'b0;
            accepted_reg <= 1'b0;
            done_reg <= 1'b0;
            finish_start_reg <= 1'b0;
            w_valid_reg <= 1'b0;
        end
    end

endmodule

`resetall
