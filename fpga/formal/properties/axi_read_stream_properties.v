// SPDX-License-Identifier: Apache-2.0
// axi_read_stream against a memory that answers what was asked for, whenever it likes: bursts stay inside 4 KiB and
// inside their command, follow each other without gap, stand still until accepted, and never ask for more than fits.
`default_nettype none

module axi_read_stream_properties #(
    parameter DEPTH = 64,
    parameter MAX_BURST = 64,
    parameter COUNT_BITS = 25
) (
    input wire clk,
    input wire rst,
    input wire flush,
    input wire [57:0] s_cmd_word,
    input wire [COUNT_BITS-1:0] s_cmd_count,
    input wire s_cmd_valid,
    input wire m_ready,
    input wire m_ar_ready,
    input wire s_r_valid
);

    wire idle;
    wire s_cmd_ready;
    wire m_valid;
    wire [63:0] addr;
    wire [7:0] len;
    wire ar_valid;
    wire [11:0] probe_owed;
    wire [$clog2(DEPTH):0] probe_count;
    wire probe_head;
    wire [57:0] probe_word;
    wire [COUNT_BITS-1:0] probe_left;

    axi_read_stream #(
        .DEPTH(DEPTH),
        .MAX_BURST(MAX_BURST),
        .COUNT_BITS(COUNT_BITS)
    ) dut (
        .clk(clk),
        .rst(rst),
        .flush(flush),
        .idle(idle),
        .s_cmd_word(s_cmd_word),
        .s_cmd_count(s_cmd_count),
        .s_cmd_valid(s_cmd_valid),
        .s_cmd_ready(s_cmd_ready),
        .m_data(),
        .m_error(),
        .m_valid(m_valid),
        .m_ready(m_ready),
        .m_ar_addr(addr),
        .m_ar_len(len),
        .m_ar_valid(ar_valid),
        .m_ar_ready(m_ar_ready),
        .s_r_data(512'd0),
        .s_r_error(1'b0),
        .s_r_valid(s_r_valid)
    );

    reg started = 1'b0;
    // words accepted by the memory and not yet answered; words answered and not yet taken
    reg [12:0] asked;
    reg [12:0] held;
    reg ar_waits;
    reg [63:0] addr_before;
    reg [7:0] len_before;
    reg m_waits;
    // what the commands still allow: the burst on offer begins at `next`, with at most `may` words
    reg [57:0] next;
    reg [COUNT_BITS-1:0] may;
    // a command that was taken while the last burst of the one before still stood
    reg queued;
    reg [57:0] queued_word;
    reg [COUNT_BITS-1:0] queued_count;

    wire [12:0] words = {5'd0, len} + 13'd1;
    wire [COUNT_BITS-1:0] words_wide = {{(COUNT_BITS - 9) {1'b0}}, {1'b0, len} + 9'd1};
    wire accepted = ar_valid && m_ar_ready;
    wire taken = probe_head && (m_ready || flush);
    wire command = s_cmd_valid && s_cmd_ready;

    always @(posedge clk) begin
        started <= 1'b1;
        asked <= asked + (accepted ? words : 13'd0) - {12'd0, s_r_valid};
        held <= held + {12'd0, s_r_valid} - {12'd0, taken};
        ar_waits <= ar_valid && !m_ar_ready;
        addr_before <= addr;
        len_before <= len;
        m_waits <= m_valid && !m_ready;
        if (accepted) begin
            next <= queued ? queued_word : next + {50'd0, len} + 58'd1;
            may <= queued ? queued_count : may - words_wide;
            queued <= 1'b0;
        end
        if (command) begin
            if (ar_valid && !m_ar_ready) begin
                queued <= 1'b1;
                queued_word <= s_cmd_word;
                queued_count <= s_cmd_count;
            end else begin
                next <= s_cmd_word;
                may <= s_cmd_count;
            end
        end
        if (flush) begin
            queued <= 1'b0;
            may <= ar_valid && !m_ar_ready ? words_wide : {COUNT_BITS{1'b0}};
        end
        if (rst) begin
            asked <= 13'd0;
            held <= 13'd0;
            ar_waits <= 1'b0;
            m_waits <= 1'b0;
            may <= {COUNT_BITS{1'b0}};
            queued <= 1'b0;
        end
    end

    // where the next burst will begin, and what is left for it
    wire [57:0] then_word = queued ? queued_word : ar_valid ? next + {50'd0, len} + 58'd1 : next;
    wire [COUNT_BITS-1:0] then_left = queued ? queued_count : ar_valid ? may - words_wide : may;

    always @* begin
        if (!started) assume (rst);
        assume (!s_r_valid || asked != 0);
        if (started && !rst) begin
            if (ar_waits) assert (ar_valid && addr == addr_before && len == len_before);
            if (ar_valid) begin
                assert (addr[5:0] == 6'd0);
                assert ({1'b0, addr[11:6]} + len[6:0] <= 7'd63);
                assert (len < MAX_BURST && len < 64);
                assert (addr[63:6] == next);
                assert (words_wide <= may);
            end
            assert (asked + held + (ar_valid ? words : 13'd0) <= DEPTH);
            assert (!(s_r_valid && probe_count == DEPTH));
            assert (idle == (probe_left == 0 && !ar_valid && asked == 0 && held == 0));
            if (m_waits && !flush) assert (m_valid);
            if (m_valid) assert (held != 0);
            // what ties the counts to the module's own; proven with the rest
            assert (probe_owed == asked + held + (ar_valid ? words : 13'd0));
            assert (held == probe_count + probe_head);
            assert (probe_left == then_left);
            if (probe_left != 0) assert (probe_word == then_word);
            if (queued) assert (ar_valid && may == words_wide);
        end
    end

    always @* begin
        if (started && !rst) begin
            cover (accepted && len == MAX_BURST - 1);
            cover (accepted && addr[11:6] == 6'd63 && may == 5);
            cover (asked + held == DEPTH);
            cover (queued);
            cover (flush && asked != 0);
        end
    end

endmodule
