// SPDX-License-Identifier: Apache-2.0
// Turns of the jobs before they end: one is prepared while the one before it walks, and its descriptor is looked at
// while the one before that is written. Hands a job to the walk as soon as it can. Does not end jobs: see list_control.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module job_turns (
    input wire clk,
    input wire rst,

    // no list; after a fault; the header is at hand; jobs may be prepared; the job that ends has been written
    input wire idle,
    input wire clear,
    input wire header,
    input wire run,
    input wire written,
    // pulse: read the header
    input wire start,
    // the job that ends next
    input wire [12:0] ending,
    input wire [12:0] jobs,

    // see job_prepare
    output wire prepare_job,
    output wire [12:0] prepare_index,
    // tables and bins of its parity are free; pulse: it takes them
    output wire prepare_free,
    input wire prepare_enters,
    input wire prepare_walkable,
    input wire prepare_done,
    input wire prepare_faulty,
    // what is prepared has ended; the job after those loaded has been refused
    output wire ended,
    output wire refused,
    // it has been handed to the walk all the same
    output wire walk_refused,
    // the array may begin with jobs of this parity
    output wire [1:0] loaded,

    // hand the job at hand to the walk; jobs handed over
    output wire handing,
    input wire walk_ready,
    output wire [12:0] handed
);

    reg [12:0] preparing_reg;
    reg [12:0] handed_reg;
    reg prepare_job_reg;
    reg busy_reg;
    reg handing_reg;
    reg was_handed_reg;
    reg prepared_reg;
    reg refused_reg;
    reg [1:0] loaded_reg;

    wire [12:0] ahead = preparing_reg - ending;

    assign prepare_free = ahead < 13'd2 || ahead == 13'd2 && written;
    assign prepare_job = prepare_job_reg;
    assign prepare_index = preparing_reg;
    assign ended = busy_reg && prepare_done;
    assign refused = refused_reg;
    assign walk_refused = refused_reg && was_handed_reg;
    assign loaded = loaded_reg;
    assign handing = handing_reg;
    assign handed = handed_reg;

    always @(posedge clk) begin
        prepare_job_reg <= 1'b0;
        if (ended) begin
            busy_reg <= 1'b0;
            prepared_reg <= !prepare_faulty && !header;
            refused_reg <= prepare_faulty && !header;
            if (!prepare_faulty && !header) loaded_reg[preparing_reg[0]] <= 1'b1;
        end
        if (busy_reg && !header && !prepare_job_reg && prepare_walkable && !handing_reg && !was_handed_reg)
            handing_reg <= 1'b1;
        if (handing_reg && walk_ready) begin
            handing_reg <= 1'b0;
            was_handed_reg <= 1'b1;
            handed_reg <= handed_reg + 13'd1;
        end
        if (ended && prepare_faulty) handing_reg <= 1'b0;
        if (prepared_reg && was_handed_reg) begin
            prepared_reg <= 1'b0;
            was_handed_reg <= 1'b0;
            preparing_reg <= preparing_reg + 13'd1;
        end
        if (run && !busy_reg && !handing_reg && !refused_reg && !prepared_reg && preparing_reg != jobs &&
            ahead < 13'd3 && !prepare_done) begin
            prepare_job_reg <= 1'b1;
            busy_reg <= 1'b1;
        end
        if (prepare_enters) loaded_reg[preparing_reg[0]] <= 1'b0;
        if (idle) begin
            preparing_reg <= 13'd0;
            handed_reg <= 13'd0;
        end
        if (idle || clear) begin
            busy_reg <= start;
            handing_reg <= 1'b0;
            was_handed_reg <= 1'b0;
            prepared_reg <= 1'b0;
            refused_reg <= 1'b0;
        end
        if (rst) begin
            prepare_job_reg <= 1'b0;
            busy_reg <= 1'b0;
            handing_reg <= 1'b0;
            refused_reg <= 1'b0;
        end
    end

endmodule

`resetall
