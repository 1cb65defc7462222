// SPDX-License-Identifier: Apache-2.0
// One row of the array: 32 products of 24 x 27 bits. For K their sum over lanes and over the words of a row of K; for V
// a sum over 16 tokens in each lane. A product is two partial products, as two DSPs make it.
`resetall
`timescale 1ns / 1ps
`default_nettype none

module array_row (
    input wire clk,

    // one word of K or V with its operands
    input wire s_valid,
    input wire s_is_v,
    input wire s_first,
    input wire s_last,
    // [32] of 24 bits: K or V, and q
    input wire [767:0] s_elements,
    input wire [767:0] s_query,
    input wire [25:0] s_weight,

    // K: five cycles after `s_valid` of the last word
    output wire signed [54:0] dot,
    // V: [32] of 54 bits, from four cycles after `s_valid` of the last token, for 16 cycles
    output wire [32*54-1:0] sums
);

    // one piece of simulator code for all instances, which then fits its caches
    /* verilator no_inline_module */

    // m: partial products, p: products, t: sums over four lanes, u: sum over lanes
    reg m_valid_reg;
    reg m_is_v_reg;
    reg m_first_reg;
    reg m_last_reg;
    reg p_valid_reg;
    reg p_is_v_reg;
    reg p_first_reg;
    reg p_last_reg;
    reg t_valid_reg;
    reg t_first_reg;
    reg t_full_reg;
    reg u_valid_reg;
    reg u_first_reg;
    reg signed [54:0] u_reg;
    reg signed [54:0] dot_reg;

    wire [32*51-1:0] products;
    wire [8*55-1:0] partial;

    genvar l;
    generate
        for (l = 0; l < 32; l = l + 1) begin : lane
            wire signed [23:0] element = s_elements[l*24+:24];
            wire signed [26:0] other = s_is_v ? {1'b0, s_weight} : {{3{s_query[l*24+23]}}, s_query[l*24+:24]};
            wire signed [12:0] low = {1'b0, element[11:0]};
            wire signed [11:0] high = element[23:12];
            reg signed [39:0] low_reg;
            reg signed [38:0] high_reg;
            reg signed [50:0] product_reg;
            reg signed [53:0] sum_reg;
            reg signed [53:0] done_reg;

            assign products[l*51+:51] = product_reg;
            assign sums[l*54+:54] = done_reg;

            always @(posedge clk) begin
                if (s_valid) begin
                    low_reg <= other * low;
                    high_reg <= other * high;
                end
                if (m_valid_reg) product_reg <= {high_reg, 12'd0} + {{11{low_reg[39]}}, low_reg};
                if (p_valid_reg && p_is_v_reg)
                    sum_reg <= {{3{product_reg[50]}}, product_reg} + (p_first_reg ? 54'sd0 : sum_reg);
                if (t_full_reg) done_reg <= sum_reg;
            end
        end
        for (l = 0; l < 8; l = l + 1) begin : four
            wire signed [50:0] a = products[(4*l+0)*51+:51];
            wire signed [50:0] b = products[(4*l+1)*51+:51];
            wire signed [50:0] c = products[(4*l+2)*51+:51];
            wire signed [50:0] d = products[(4*l+3)*51+:51];
            reg signed [54:0] part_reg;

            assign partial[l*55+:55] = part_reg;

            always @(posedge clk) begin
                if (p_valid_reg && !p_is_v_reg)
                    part_reg <= ({{4{a[50]}}, a} + {{4{b[50]}}, b}) + ({{4{c[50]}}, c} + {{4{d[50]}}, d});
            end
        end
    endgenerate

    assign dot = dot_reg;

    always @(posedge clk) begin
        m_valid_reg <= s_valid;
        m_is_v_reg <= s_is_v;
        m_first_reg <= s_first;
        m_last_reg <= s_last;
        p_valid_reg <= m_valid_reg;
        p_is_v_reg <= m_is_v_reg;
        p_first_reg <= m_first_reg;
        p_last_reg <= m_last_reg;
        t_valid_reg <= p_valid_reg && !p_is_v_reg;
        t_first_reg <= p_first_reg;
        t_full_reg <= p_valid_reg && p_is_v_reg && p_last_reg;
        u_valid_reg <= t_valid_reg;
        u_first_reg <= t_first_reg;
        if (t_valid_reg)
            u_reg <= (($signed(partial[0+:55]) + $signed(partial[55+:55])) +
                ($signed(partial[110+:55]) + $signed(partial[165+:55]))) +
                (($signed(partial[220+:55]) + $signed(partial[275+:55])) +
                ($signed(partial[330+:55]) + $signed(partial[385+:55])));
        if (u_valid_reg) dot_reg <= u_reg + (u_first_reg ? 55'sd0 : dot_reg);
    end

endmodule

`resetall
