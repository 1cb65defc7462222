# SPDX-License-Identifier: Apache-2.0
"""RTL, register map, HLS top and host constants agree; each planted difference is named with file and both values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rtl_copies import changed, copy
from tests.support.rtl_tools import needs_icarus, needs_pyverilog, patient
from tools.rtl import check

# pyverilog runs iverilog as its preprocessor.
pytestmark = [needs_pyverilog, needs_icarus, patient]

TOP = "fpga/rtl/nearkv_attend.v"
STREAM = "fpga/rtl/axi_read_stream.v"
REGISTERS = "fpga/rtl/control_registers.v"
HLS = "fpga/hls/src/nearkv_attend.cpp"
MAP = "fpga/regmap.toml"
HEADER = "fpga/rtl/regmap.vh"

# what, file, old, new, what one finding says
PLANTED = [
    ("register decoded elsewhere", REGISTERS, "`NK_ADDR_OUT + 12'd4: rdata", "12'h034: rdata", ["read of OUT at 0x2C"]),
    ("register not written", REGISTERS, "`NK_ADDR_GIER: if", "12'h03C: if", ["write of GIER at 0x04"]),
    (
        "register too many",
        REGISTERS,
        "default: rdata_next",
        "12'h040: rdata_next = 32'd1; default: rdata_next",
        ["0x40"],
    ),
    ("halves swapped", REGISTERS, "rdata_next = kv_reg[31:0]", "rdata_next = kv_reg[63:32]", ["kv_reg[31:0]", "0x10"]),
    ("pointers swapped", REGISTERS, "rdata_next = kv_reg[31:0]", "rdata_next = ctl_reg[31:0]", ["ctl_reg[31:0]", "KV"]),
    ("fields swapped", REGISTERS, "idle, done_reg, start", "done_reg, idle, start", ["bit 1 of CTRL is IDLE", "DONE"]),
    ("field moved", REGISTERS, "write_ctrl && data[4]", "write_ctrl && data[5]", ["bit 5 of CTRL", "bit 4"]),
    ("offset in the generated header", HEADER, "NK_ADDR_KV 12'h010", "NK_ADDR_KV 12'h050", ["KV at 0x10", "0x50"]),
    (
        "offset in the map alone",
        MAP,
        "[registers.OUT]\noffset = 0x28",
        "[registers.OUT]\noffset = 0x30",
        ["0x30", "0x28"],
    ),
    ("bit in the map alone", MAP, "CONTINUE = { bit = 4", "CONTINUE = { bit = 5", ["bit 4 of CTRL", "bit 5"]),
    ("word in the map alone", MAP, "word_bytes = { value = 64", "word_bytes = { value = 32", ["rdata", "512", "256"]),
    (
        "tile sum in the map alone",
        MAP,
        "tile_bits = { value = 54",
        "tile_bits = { value = 55",
        ["sums", "1728", "1760"],
    ),
    ("kernel renamed in the map", MAP, 'kernel = "nearkv_attend"', 'kernel = "nearkv_other"', ["nearkv_other"]),
    ("host constant", "driver/nearkv_driver/regmap.py", "ADDR_CTL = 0x1C", "ADDR_CTL = 0x20", ["CTL", "0x20", "0x1C"]),
    ("port width", TOP, "[511:0] m_axi_kv_rdata", "[255:0] m_axi_kv_rdata", ["m_axi_kv_rdata", "256", "512"]),
    ("port direction", TOP, "output wire interrupt", "input wire interrupt", ["interrupt is an input", "output"]),
    ("port renamed", TOP, "input wire m_axi_kv_rlast", "input wire m_axi_kv_last", ["m_axi_kv_rlast is missing"]),
    ("port too many", TOP, "output wire interrupt", "output wire more, output wire interrupt", ["port more is none"]),
    (
        "burst parameter",
        "fpga/rtl/axi_read_stream.v",
        "MAX_BURST = 64",
        "MAX_BURST = 32",
        ["MAX_BURST is 32", "64 words"],
    ),
    ("width inside", "fpga/rtl/exp2.v", "[23:0] fraction", "[22:0] fraction", ["exp2.v", "23 bits", "24"]),
    ("bundle renamed", HLS, "port = kv bundle = kv", "port = kv bundle = gmem", ["m_axi port kv", "bundle gmem", "kv"]),
    ("control bundle", HLS, "port = out bundle = control", "port = out bundle = ctrl", ["port out has bundle ctrl"]),
    (
        "arguments in another order",
        HLS,
        "word_t* kv, const nearkv::word_t* ctl",
        "word_t* ctl, const nearkv::word_t* kv",
        ["ctl, kv, out", "kv, ctl, out"],
    ),
    (
        "argument that is written",
        HLS,
        "const nearkv::word_t* ctl",
        "nearkv::word_t* ctl",
        ["m_axi_ctl_awaddr is missing"],
    ),
    ("protocol", HLS, "ap_ctrl_chain port", "ap_ctrl_hs port", ["not ap_ctrl_chain"]),
    (
        "bursts of the HLS form",
        HLS,
        "max_read_burst_length = \\\n    64",
        "max_read_burst_length = 32",
        ["32", "64 words"],
    ),
    ("top renamed", HLS, "void nearkv_attend(", "void nearkv_attends(", ["nearkv_attends"]),
    ("word of the HLS form", "fpga/hls/include/types.hpp", "ap_uint<512>", "ap_uint<256>", ["256", "512"]),
]


def test_the_repository_has_no_finding() -> None:
    assert check.findings(check.ROOT) == []


def test_a_copy_has_no_finding(tmp_path: Path) -> None:
    assert check.findings(copy(tmp_path)) == []


@pytest.mark.parametrize(("what", "file", "old", "new", "said"), PLANTED, ids=[row[0] for row in PLANTED])
def test_a_planted_difference_is_named(
    what: str, file: str, old: str, new: str, said: list[str], tmp_path: Path
) -> None:
    found = check.findings(changed(tmp_path, file, old, new))
    assert any(all(part in finding for part in said) for finding in found), (what, found)


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([str(copy(tmp_path / "good"))]) == 0
    assert check.main([str(changed(tmp_path / "bad", HLS, "bundle = kv", "bundle = gmem"))]) == 1
    assert "nearkv_attend.cpp: m_axi port kv has bundle gmem; the RTL has kv" in capsys.readouterr().err
