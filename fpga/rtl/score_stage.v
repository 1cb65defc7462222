// SPDX-License-Identifier: Apache-2.0
// Dots of 8 rows and one token to weights: four score units take rows 0 to 3, then rows 4 to 7. Decides which rows see
// the token. Dots come at least two cycles apart.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module score_stage (
    input wire clk,

    // [8] of 55 bits, and their token
    input wire [8*55-1:0] s_dots,
    input wire s_valid,
    input wire s_parity,
    input wire [2:0] s_group,
    input wire s_weights,
    input wire [20:0] s_position,
    input wire [4:0] s_top,
    input wire s_end,

    // scale mantissas of two jobs
    input wire [47:0] scales,
    // row_table, one cycle
    output wire r_parity,
    output wire [2:0] r_group,
    input wire [8*22-1:0] r_low,
    input wire [8*22-1:0] r_high,
    input wire [8*10-1:0] r_shift,

    // weight_buffer
    output wire w_valid,
    output wire w_upper,
    output wire [7:0] w_addr,
    output wire [4*25-1:0] w_mantissa,
    output wire [4*24-1:0] w_whole,
    output wire [3:0] w_visible,
    // pulse: the last weight of a unit has been written
    output wire done,
    // a visible score was clamped; which job
    output wire clamped,
    output wire clamped_parity
);

    // units take seven cycles
    localparam DEPTH = 7;

    reg [8*55-1:0] dots_reg;
    reg parity_reg;
    reg [2:0] group_reg;
    reg weights_reg;
    reg [20:0] position_reg;
    reg [4:0] top_reg;
    reg end_reg;
    // first and second pass
    reg lower_reg;
    reg upper_reg;

    // what goes beside the units: {parity, end, address 8, visible 4, upper, valid}
    reg [15:0] tags_reg[0:DEPTH-1];
    reg done_reg;
    reg [3:0] visible;
    wire [15:0] tag = tags_reg[DEPTH-1];
    wire [3:0] clamps;
    integer i;

    genvar u;
    generate
        for (u = 0; u < 4; u = u + 1) begin : unit
            wire [21:0] low = upper_reg ? r_low[(u+4)*22+:22] : r_low[u*22+:22];
            wire [21:0] high = upper_reg ? r_high[(u+4)*22+:22] : r_high[u*22+:22];
            wire [9:0] shift = upper_reg ? r_shift[(u+4)*10+:10] : r_shift[u*10+:10];

            always @* visible[u] = {1'b0, position_reg} >= low && {1'b0, position_reg} < high;

            score_unit score (
                .clk(clk),
                .s_dot(upper_reg ? dots_reg[(u+4)*55+:55] : dots_reg[u*55+:55]),
                .s_scale(parity_reg ? scales[47:24] : scales[23:0]),
                // ek = top - 14
                .s_shift(shift + {5'd0, top_reg} - 10'd14),
                .s_valid(lower_reg || upper_reg),
                .m_mantissa(w_mantissa[u*25+:25]),
                .m_whole(w_whole[u*24+:24]),
                .m_clamped(clamps[u])
            );
        end
    endgenerate

    // the second pass needs the rows for one more cycle
    assign r_parity = s_valid ? s_parity : parity_reg;
    assign r_group = s_valid ? s_group : group_reg;
    assign w_valid = tag[0];
    assign w_upper = tag[1];
    assign w_visible = tag[5:2];
    assign w_addr = tag[13:6];
    assign done = done_reg;
    assign clamped = tag[0] && (clamps & tag[5:2]) != 4'd0;
    assign clamped_parity = tag[15];

    always @(posedge clk) begin
        if (s_valid) begin
            dots_reg <= s_dots;
            parity_reg <= s_parity;
            group_reg <= s_group;
            weights_reg <= s_weights;
            position_reg <= s_position;
            top_reg <= s_top;
            end_reg <= s_end;
        end
        lower_reg <= s_valid;
        upper_reg <= lower_reg;
        tags_reg[0] <= {
            parity_reg, end_reg, weights_reg, position_reg[6:0], visible, upper_reg, lower_reg || upper_reg
        };
        for (i = 1; i < DEPTH; i = i + 1) tags_reg[i] <= tags_reg[i-1];
        done_reg <= tag[0] && tag[1] && tag[14];
    end

endmodule

`resetall
