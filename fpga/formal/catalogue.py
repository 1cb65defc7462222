# SPDX-License-Identifier: Apache-2.0
"""Which properties are proven of which module, and the planted faults that each of these proofs must find."""

from __future__ import annotations

from fpga.formal.engine import RTL
from fpga.formal.proof import Mutation, Proof

FIFO = {"probe_count": "dut.count_reg"}
STREAM = {
    "probe_owed": "dut.owed_reg",
    "probe_count": "dut.words.count_reg",
    "probe_head": "dut.words.head_valid_reg",
    "probe_word": "dut.word_reg",
    "probe_left": "dut.left_reg",
}
STREAM_SOURCES = ("axi_read_stream.v", "fifo.v")
# what stands between the compute modules and the ports
TOP = (
    "attend_engine.v",
    "axi_read_arbiter.v",
    "axi_read_stream.v",
    "axi_write.v",
    "control_registers.v",
    "list_side.v",
    "nearkv_attend.v",
    "read_side.v",
    "walk_side.v",
    "write_side.v",
)
FLOAT = {"probe_fine": "dut.fine_reg", "probe_left": "dut.left_reg", "probe_negative": "dut.negative_4_reg"}


def stream(depth: int, max_burst: int, short: bool, mutations: tuple[Mutation, ...] = ()) -> Proof:
    return Proof(
        f"axi_read_stream {depth}",
        "axi_read_stream_properties",
        STREAM_SOURCES,
        "AR still until accepted; bursts in 4 KiB, in order, in their command; all answers fit",
        method="induction",
        parameters={"DEPTH": depth, "MAX_BURST": max_burst},
        probes=STREAM,
        mutations=mutations,
        short=short,
    )


def fifo(name: str, short: bool, mutations: tuple[Mutation, ...] = (), **parameters: int) -> Proof:
    return Proof(
        f"fifo {name}",
        "fifo_properties",
        ("fifo.v",),
        "never over- nor underflows; a word is offered and stands still until taken",
        method="induction",
        cycles=40,
        parameters=parameters,
        probes=FIFO,
        mutations=mutations,
        short=short,
    )


PROOFS: tuple[Proof, ...] = (
    fifo(
        "16",
        True,
        DEPTH=16,
        mutations=(
            Mutation("fifo.v", "assign s_ready = count_reg < STOP;", "assign s_ready = count_reg <= STOP;"),
            Mutation("fifo.v", "if (pull) head_valid_reg <= 1'b1;", "if (pull || m_ready) head_valid_reg <= 1'b1;"),
            Mutation("fifo.v", "(!head_valid_reg || m_ready);", "1'b1;"),
        ),
    ),
    fifo("32 spare 16", True, DEPTH=32, SPARE=16),
    fifo("32 spare 8", False, DEPTH=32, SPARE=8),
    fifo("64 by credit", False, DEPTH=64, CREDIT=1),
    fifo("1024", False, DEPTH=1024),
    fifo(
        "512 by credit",
        False,
        DEPTH=512,
        CREDIT=1,
        mutations=(Mutation("fifo.v", "if (push != pull) count_reg", "if (push || pull) count_reg"),),
    ),
    Proof(
        "fifo data",
        "fifo_properties",
        ("fifo.v",),
        "any word comes out after those before it, unchanged (4 entries of 2 bits)",
        method="pdr",
        cycles=12,
        parameters={"DEPTH": 4, "DATA": 1},
        probes=FIFO,
        mutations=(
            Mutation("fifo.v", "read_reg <= read_reg + 1'b1;", "read_reg <= read_reg;"),
            Mutation("fifo.v", "head_reg <= mem[read_reg];", "head_reg <= mem[write_reg];"),
        ),
    ),
    stream(
        64,
        64,
        True,
        mutations=(
            Mutation("axi_read_stream.v", "7'd64 - {1'b0, word_reg[5:0]}", "7'd64"),
            Mutation("axi_read_stream.v", "owed_reg + burst_wide <= ROOM", "owed_reg <= ROOM"),
            Mutation("axi_read_stream.v", "!flush && (!ar_valid_reg || m_ar_ready);", "!flush;"),
            Mutation("axi_read_stream.v", "? left_reg[6:0] : to_limit;", "? to_limit : to_limit;"),
            Mutation("axi_read_stream.v", "assign s_cmd_ready = left_reg == 0", "assign s_cmd_ready = left_reg <= 1"),
        ),
    ),
    stream(512, 64, False),
    stream(16, 16, False),
    Proof(
        "axi_read_arbiter",
        "axi_read_arbiter_properties",
        ("axi_read_arbiter.v",),
        "AR still until accepted; each request goes out once with its id; answers reach their reader",
        cycles=10,
        mutations=(
            Mutation("axi_read_arbiter.v", "!valid_reg || m_axi_arready;", "1'b1;"),
            Mutation("axi_read_arbiter.v", "free && grant[r]", "free && s_ar_valid[r]"),
            Mutation("axi_read_arbiter.v", "m_axi_rvalid && m_axi_rid == ID", "m_axi_rvalid && m_axi_rid >= ID"),
        ),
    ),
    Proof(
        "axi_write",
        "axi_write_properties",
        ("axi_write.v", "fifo.v"),
        "AW and W still until accepted, once and in order; at most DEPTH in flight; first failure kept (DEPTH 4)",
        parameters={"DEPTH": 4},
        probes={"probe_count": "dut.flying.count_reg", "probe_flying": "dut.flying_reg"},
        mutations=(
            Mutation(
                "axi_write.v", "(!w_valid_reg || m_axi_wready) && room", "(!w_valid_reg || m_axi_awready) && room"
            ),
            Mutation("axi_write.v", "m_axi_bresp[1] && !kept", "m_axi_bresp[1]"),
            Mutation("axi_write.v", "assign idle = flying_reg == 0;", "assign idle = !aw_valid_reg && !w_valid_reg;"),
        ),
    ),
    Proof(
        "control_registers",
        "control_registers_properties",
        ("control_registers.v",),
        "AXI4-Lite: one still answer per request; ap_ctrl_chain: IDLE, START held once, DONE; argument bytes",
        cycles=14,
        mutations=(
            Mutation("control_registers.v", "(!bvalid_reg || s_axil_bready);", "1'b1;"),
            Mutation("control_registers.v", "start_reg && !busy_reg && !done_reg;", "start_reg && !busy_reg;"),
            Mutation("control_registers.v", "wire idle = !start_reg && !busy_reg;", "wire idle = !busy_reg;"),
            Mutation("control_registers.v", "if (write_ctrl && data[4]) done_reg", "if (read_ctrl) done_reg"),
            Mutation("control_registers.v", "ctl_reg[31:0] & ~mask | data", "data"),
        ),
    ),
    Proof(
        "window_check",
        "window_check_properties",
        ("window_check.v",),
        "inclusion of [address, address + nbytes), all 64-bit values, no overflow",
        method="window",
        depth=1,
        cycles=1,
        mutations=(
            Mutation("window_check.v", "range_end <= window_end", "range_end[63:0] <= window_end[63:0]"),
            Mutation("window_check.v", "address >= base && ", ""),
        ),
    ),
    Proof(
        "row_scan",
        "row_scan_properties",
        ("row_scan.v",),
        "largest exponent field, Inf and NaN, all words",
        method="window",
        depth=2,
        cycles=3,
        mutations=(
            Mutation("row_scan.v", "if (!s_half && high_next", "if (high_next"),
            Mutation("row_scan.v", "i < 8; i = i + 1", "i < 7; i = i + 1"),
        ),
    ),
    Proof(
        "element_decode lane 19",
        "element_decode_properties",
        ("element_decode.v",),
        "nearest integer, halves up, all elements and row exponents; one lane",
        method="window",
        depth=3,
        cycles=4,
        parameters={"LANE": 19},
        mutations=(
            Mutation("element_decode.v", "(floor_value + 25'sd1) >>> 1", "floor_value >>> 1"),
            Mutation("element_decode.v", "keep && x[15]", "keep && !x[15]"),
            Mutation("element_decode.v", "{x[14:10] != 5'd0, x[9:0]}", "{1'b1, x[9:0]}"),
            Mutation("element_decode.v", "!(s_pad && l >= 16)", "!(s_pad && l >= 20)"),
        ),
    ),
    Proof(
        "element_decode",
        "element_decode_properties",
        ("element_decode.v",),
        "nearest integer, halves up, all elements, row exponents and lanes",
        method="window",
        depth=3,
        cycles=4,
        short=False,
        limit_s=600,
    ),
    Proof(
        "weight_align",
        "weight_align_properties",
        ("weight_align.v",),
        "nearest integer, halves up, all mantissas, places and tops",
        method="window",
        depth=3,
        cycles=4,
        mutations=(
            Mutation("weight_align.v", "below > 26'sd27 ? 5'd27", "below > 26'sd63 ? 5'd27"),
            Mutation("weight_align.v", "{25'd0, moved[0]}", "26'd0"),
        ),
    ),
    Proof(
        "float_convert",
        "float_convert_properties",
        ("float_convert.v",),
        "FP32 nearest to the number of the three bins, ties to even, all bins",
        method="window",
        depth=6,
        cycles=6,
        probes=FLOAT,
        limit_s=300,
        mutations=(
            Mutation("float_convert.v", "(fine_reg[102:0] != 103'd0 || fine_reg[104])", "1'b1"),
            Mutation("float_convert.v", "8'd189 - {1'b0, left_reg}", "8'd190 - {1'b0, left_reg}"),
            Mutation("float_convert.v", "{{35{b1[49]}}, b1, 32'd0}", "{35'd0, b1, 32'd0}"),
            Mutation("float_convert.v", "by_32[127:112] == 16'd0", "by_32[127:113] == 15'd0"),
        ),
    ),
    Proof(
        "exp2",
        "exp2_properties",
        ("exp2.v",),
        "monotone, in [2^24, 2^25), equal to table and chord",
        method="exhaustive",
        short=False,
        limit_s=300,
        mutations=(
            Mutation("exp2.v", "product_reg + 29'd8192", "product_reg"),
            Mutation("exp2.v", "rest_reg <= fraction[13:0];", "rest_reg <= {fraction[13:1], 1'b1};"),
        ),
    ),
    Proof(
        "nearkv_attend ports",
        "nearkv_attend_properties",
        TOP,
        "AXI rules of all ports: still until accepted, 4 KiB, ids, quiet in reset; compute modules do anything",
        method="pdr",
        cycles=75,
        short=False,
        limit_s=600,
        cut=tuple(sorted(path.name for path in RTL.glob("*.v") if path.name not in TOP)),
        mutations=(
            Mutation("nearkv_attend.v", "assign m_axi_kv_arsize = 3'd6;", "assign m_axi_kv_arsize = 3'd5;"),
            Mutation("axi_write.v", "if (take) begin\n            aw_word", "if (s_valid) begin\n            aw_word"),
            Mutation("axi_read_stream.v", "7'd64 - {1'b0, word_reg[5:0]}", "7'd64"),
        ),
    ),
    *(
        Proof(
            f"crc32c stream {stream_index}",
            "crc32c_properties",
            ("crc32c.v",),
            "a word of 64 bytes is 512 steps of one bit",
            method="exhaustive",
            parameters={"STREAM": stream_index},
            replaced={f"dut.state_{stream_index}_reg": "before"},
            mutations=(Mutation("crc32c.v", "DATA_MATRIX[b*512+:512]", "DATA_MATRIX[(b^1)*512+:512]"),)
            if stream_index == 0
            else (Mutation("crc32c.v", "STATE_MATRIX[b*32+:32]", "STATE_MATRIX[(b^1)*32+:32]"),),
        )
        for stream_index in (0, 1)
    ),
)
