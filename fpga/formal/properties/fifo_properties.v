// SPDX-License-Identifier: Apache-2.0
// fifo: never takes a word that it has no room for, never offers one that it was not given, keeps order and data.
// The writer keeps one of two contracts: it stops at most SPARE words after `s_ready` fell, or it counts what it owes.
`default_nettype none

module fifo_properties #(
    parameter WIDTH = 2,
    parameter DEPTH = 8,
    parameter SPARE = 0,
    // 0: the writer looks at `s_ready`; 1: it never has more than DEPTH words inside
    parameter CREDIT = 0,
    // 1: one word, any, is followed through
    parameter DATA = 0
) (
    input wire clk,
    input wire rst,
    input wire [WIDTH-1:0] s_data,
    input wire s_valid,
    input wire m_ready,
    // follow the word that is pushed now
    input wire mark
);

    localparam BITS = $clog2(DEPTH) + 2;

    wire s_ready;
    wire m_valid;
    wire [WIDTH-1:0] m_data;
    wire [BITS-2:0] probe_count;

    fifo #(
        .WIDTH(WIDTH),
        .DEPTH(DEPTH),
        .SPARE(SPARE)
    ) dut (
        .clk(clk),
        .rst(rst),
        .s_data(s_data),
        .s_valid(s_valid),
        .s_ready(s_ready),
        .m_data(m_data),
        .m_valid(m_valid),
        .m_ready(m_ready)
    );

    reg started = 1'b0;
    reg [BITS-1:0] held;
    reg [BITS-1:0] late;
    reg was_held;
    reg waits;
    reg [WIDTH-1:0] offered;
    reg marked;
    reg [WIDTH-1:0] marked_data;
    reg [BITS-1:0] ahead;

    wire pop = m_valid && m_ready;
    wire [BITS-1:0] left = held - {{(BITS - 1) {1'b0}}, pop};

    always @(posedge clk) begin
        started <= 1'b1;
        held <= left + {{(BITS - 1) {1'b0}}, s_valid};
        late <= s_ready ? {BITS{1'b0}} : late + {{(BITS - 1) {1'b0}}, s_valid};
        was_held <= left != 0;
        waits <= m_valid && !m_ready;
        offered <= m_data;
        if (s_valid && mark && !marked) begin
            marked <= 1'b1;
            marked_data <= s_data;
            ahead <= left;
        end else if (marked && pop) begin
            marked <= ahead != 0;
            ahead <= ahead - 1'b1;
        end
        if (rst) begin
            held <= {BITS{1'b0}};
            late <= {BITS{1'b0}};
            was_held <= 1'b0;
            waits <= 1'b0;
            marked <= 1'b0;
        end
    end

    always @* begin
        if (!started) assume (rst);
        if (CREDIT) assume (!s_valid || held < DEPTH);
        else assume (!s_valid || s_ready || late < SPARE);
        if (started && !rst) begin
            // a word that is pushed has room
            assert (!(s_valid && probe_count == DEPTH));
            assert (held == probe_count + m_valid);
            assert (held <= DEPTH + 1);
            assert (CREDIT || probe_count <= DEPTH - SPARE + late);
            assert (CREDIT || late <= SPARE);
            // a word is offered as long as one has been inside for a cycle, and until it is taken
            assert (m_valid == was_held);
            if (waits) assert (m_data == offered);
            if (DATA && marked) begin
                assert (ahead < held);
                if (pop && ahead == 0) assert (m_data == marked_data);
            end
        end
    end

    // a deep one takes too many cycles to fill
    generate
        if (DEPTH <= 32) begin : fills
            always @* if (started && !rst) cover (probe_count == DEPTH && m_valid);
        end
        if (DATA) begin : follows
            always @* if (started && !rst) cover (marked && pop && ahead == 0 && held > 1);
        end
    endgenerate

    always @* begin
        if (started && !rst) begin
            cover (m_valid && m_ready && s_valid && held == 1);
            cover (held == 5);
        end
    end

endmodule
