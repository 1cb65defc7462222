// SPDX-License-Identifier: Apache-2.0
// Causal limits of the query tokens to what each row sees, [low, high), and an empty T for each row.
// Takes every word before it is done, so that an error reply outranks a bad limit.
`resetall
`timescale 1ns / 1ps
`default_nettype none
`include "regmap.vh"

module limit_load (
    input wire clk,
    input wire rst,

    // pulse; the inputs stay until `done`
    input wire start,
    input wire [6:0] query_tokens,
    input wire [6:0] group,
    input wire [20:0] window,

    input wire [511:0] s_data,
    input wire s_valid,
    output wire s_ready,

    // one row; rows up to a multiple of 8 are written, those beyond `rows` see nothing
    output wire [5:0] row,
    output wire [21:0] low,
    output wire [21:0] high,
    output wire row_valid,
    input wire row_ready,

    // pulse; the others are valid with it
    output wire done,
    output wire bad,
    output wire [31:0] position,
    output wire [31:0] detail
);

    reg busy_reg;
    reg [6:0] token_reg;
    // rows left of the token, rows written
    reg [6:0] left_reg;
    reg [6:0] row_reg;
    reg bad_reg;
    reg [6:0] position_reg;
    reg second_reg;

    wire [31:0] first = s_data[{token_reg[2:0], 6'd0}+:32];
    wire [31:0] limit = s_data[{token_reg[2:0], 6'd0}+32+:32];
    wire first_bad = first > `NK_POSITIONS_MAX;
    wire limit_bad = limit > `NK_POSITIONS_MAX;
    wire [21:0] edge_low = window == 21'd0 || limit[21:0] < {1'b0, window} ? 22'd0 : limit[21:0] - {1'b0, window};
    wire past = token_reg == query_tokens;
    wire padding = row_reg[2:0] != 3'd0;
    wire step = busy_reg && row_ready && (past ? padding : s_valid);
    wire token_end = step && !past && left_reg == 7'd1;

    assign s_ready = token_end && (token_reg[2:0] == 3'd7 || token_reg + 7'd1 == query_tokens);
    assign row = row_reg[5:0];
    assign low = past ? 22'd0 : first[21:0] > edge_low ? first[21:0] : edge_low;
    assign high = past ? 22'd0 : limit[21:0];
    assign row_valid = busy_reg && (past ? padding : s_valid);
    assign done = busy_reg && past && !padding;
    assign bad = bad_reg;
    assign position = {25'd0, position_reg};
    assign detail = second_reg ? `NK_LIMIT_LIMIT_LSB / 8 : 32'd0;

    always @(posedge clk) begin
        if (step) begin
            row_reg <= row_reg + 7'd1;
            left_reg <= token_end ? group : left_reg - 7'd1;
        end
        if (token_end) begin
            token_reg <= token_reg + 7'd1;
            if (!bad_reg && (first_bad || limit_bad)) begin
                bad_reg <= 1'b1;
                position_reg <= token_reg;
                second_reg <= !first_bad;
            end
        end
        if (done) busy_reg <= 1'b0;
        if (start) begin
            busy_reg <= 1'b1;
            token_reg <= 7'd0;
            left_reg <= group;
            row_reg <= 7'd0;
            bad_reg <= 1'b0;
        end
        if (rst) busy_reg <= 1'b0;
    end

endmodule

`resetall
