# SPDX-License-Identifier: Apache-2.0
"""Modules of fpga/rtl are connected by name, completely, at the right widths; each planted fault is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rtl_copies import changed, copy
from tests.support.rtl_tools import needs_icarus, needs_pyverilog, patient
from tools.rtl import check
from tools.rtl.elaborate import instances
from tools.rtl.verilog import read

pytestmark = [needs_pyverilog, needs_icarus, patient]

STREAM = "fpga/rtl/axi_read_stream.v"
# what, file, old, new, what one finding says
PLANTED = [
    ("port that does not exist", STREAM, ".s_data(", ".s_word(", ["instance words of fifo", "s_word does not exist"]),
    (
        "input left out",
        STREAM,
        "        .s_valid(s_r_valid),\n",
        "",
        ["words of fifo", "input s_valid is not connected"],
    ),
    ("input left open", STREAM, ".s_valid(s_r_valid)", ".s_valid()", ["input s_valid is not connected"]),
    ("output left out", STREAM, "        .s_ready(fifo_ready),\n", "", ["output s_ready is not mentioned"]),
    ("parameter that does not exist", STREAM, ".WIDTH(513)", ".WIDE(513)", ["parameter WIDE does not exist", "WIDTH"]),
    ("parameter of another value", STREAM, ".WIDTH(513)", ".WIDTH(512)", ["s_data has 512 bits", "has 513"]),
    ("net of another width", STREAM, ".s_data({s_r_error, s_r_data})", ".s_data(s_r_data)", ["513 bits", "has 512"]),
    (
        "connection by order",
        STREAM,
        ".clk(clk),\n        .rst(rst),\n        .s_data",
        "clk, rst, s_r_data, ",
        ["pyverilog cannot read"],
    ),
    ("illegal parameter", STREAM, ".DEPTH(DEPTH)", ".DEPTH(DEPTH + 1)", ["fifo_DEPTH_must_be_a_power_of_two_from_2"]),
    ("module that nobody has", STREAM, "    fifo #(", "    queue #(", ["no file defines its module queue"]),
    (
        "two modules in a file",
        "fpga/rtl/window_check.v",
        "endmodule\n",
        "endmodule\nmodule more (input wire a);\nendmodule\n",
        ["window_check.v: defines window_check, more"],
    ),
    ("module of another name", "fpga/rtl/window_check.v", "module window_check", "module window", ["defines window;"]),
    (
        "output without a driver",
        "fpga/rtl/axi_write.v",
        "assign m_axi_bready",
        "wire dummy",
        ["output m_axi_bready", "driver"],
    ),
    (
        "output of an instance without a driver",
        STREAM,
        ".m_data({m_error, m_data})",
        ".m_data()",
        ["output m_data", "driver"],
    ),
]


@pytest.mark.parametrize(("what", "file", "old", "new", "said"), PLANTED, ids=[row[0] for row in PLANTED])
def test_a_planted_fault_is_named(what: str, file: str, old: str, new: str, said: list[str], tmp_path: Path) -> None:
    found = check.findings(changed(tmp_path, file, old, new))
    assert any(all(part in finding for part in said) for finding in found), (what, found)


def test_a_module_that_nobody_uses_is_named(tmp_path: Path) -> None:
    root = copy(tmp_path)
    (root / "fpga/rtl/spare.v").write_text("module spare (\n    input wire a\n);\nendmodule\n")
    assert check.findings(root) == ["spare.v: module spare is instantiated nowhere under nearkv_attend"]


def test_generate_loops_and_parameters_have_values() -> None:
    rtl = check.ROOT / "fpga" / "rtl"
    modules = {module.name: module for module in read(rtl.glob("*.v"), rtl)}
    streams = [i.parameters for i in instances(modules["walk_side"]) if i.module == "axi_read_stream"]
    assert streams == [{"DEPTH": 16, "MAX_BURST": 16}] * 2
    assert len([i for i in instances(modules["array_core"]) if i.module == "array_row"]) == 8
    (words,) = instances(modules["axi_read_stream"], {"DEPTH": 512})
    assert words.parameters == {"WIDTH": 513, "DEPTH": 512}


def test_pyverilog_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.v").write_text("module one (\n    input wire a\n);\nendmodule\n")
    read([tmp_path / "one.v"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["one.v"]
