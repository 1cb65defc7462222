# SPDX-License-Identifier: Apache-2.0
"""The RTL read with pyverilog against fpga/regmap.toml: registers that are decoded, ports of the top, their widths."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from nearkv_driver import regmap as rm
from nearkv_emulation.rtl_build import TOP, rtl_folder

from tests.support.rtl_tools import needs_icarus, needs_pyverilog, patient

# pyverilog runs iverilog as its preprocessor.
pytestmark = [needs_pyverilog, needs_icarus, patient]

REGISTERS = {
    "NK_ADDR_CTRL": rm.ADDR_CTRL,
    "NK_ADDR_GIER": rm.ADDR_GIER,
    "NK_ADDR_IP_IER": rm.ADDR_IP_IER,
    "NK_ADDR_IP_ISR": rm.ADDR_IP_ISR,
    "NK_ADDR_KV": rm.ADDR_KV,
    "NK_ADDR_CTL": rm.ADDR_CTL,
    "NK_ADDR_OUT": rm.ADDR_OUT,
}
DATA_BITS = {"m_axi_kv_rdata": 512, "m_axi_ctl_rdata": 512, "m_axi_out_wdata": 512, "m_axi_out_wstrb": 64}
ADDRESS_BITS = {"m_axi_kv_araddr": 64, "m_axi_ctl_araddr": 64, "m_axi_out_awaddr": 64, "s_axi_control_awaddr": 12}


def code(path: Path, folder: Path) -> Any:
    """A parser of one file."""
    from pyverilog.vparser import parser

    return parser.VerilogCodeParser(
        [str(path)],
        preprocess_output=str(folder / "pp.v"),
        outputdir=str(folder),
        debug=False,
        preprocess_include=[str(rtl_folder())],
    )


def module(path: Path, folder: Path) -> Any:
    """The module definition in a file."""
    from pyverilog.vparser import ast

    definitions = code(path, folder).parse().description.definitions
    return next(d for d in definitions if isinstance(d, ast.ModuleDef))


def ports(definition: Any) -> dict[str, tuple[str, int]]:
    """{name: (direction, bits)} of an ANSI port list with constant widths."""
    found = {}
    for port in definition.portlist.ports:
        first = port.first
        bits = 1 if first.width is None else int(first.width.msb.value) - int(first.width.lsb.value) + 1
        found[first.name] = (type(first).__name__.lower(), bits)
    return found


def decoded(text: str) -> set[int]:
    """Register offsets that a preprocessed source compares an address with."""
    return {int(value, 16) for value in re.findall(r"12'h([0-9A-Fa-f]{3})", text)}


def test_every_register_is_decoded(tmp_path: Path) -> None:
    assert decoded(code(rtl_folder() / "control_registers.v", tmp_path).preprocess()) == set(REGISTERS.values())


def test_a_moved_register_is_noticed(tmp_path: Path) -> None:
    text = (rtl_folder() / "control_registers.v").read_text().replace("`NK_ADDR_OUT", "12'h02C")
    moved = tmp_path / "control_registers.v"
    moved.write_text(text)
    assert decoded(code(moved, tmp_path).preprocess()) != set(REGISTERS.values())


def test_ports_of_the_top(tmp_path: Path) -> None:
    found = ports(module(rtl_folder() / f"{TOP}.v", tmp_path))
    assert found["ap_clk"] == found["ap_rst_n"] == ("input", 1)
    assert found["interrupt"] == ("output", 1)
    for name, bits in {**DATA_BITS, **ADDRESS_BITS}.items():
        assert found[name][1] == bits, name
    masters = {name.split("_")[2] for name in found if name.startswith("m_axi_")}
    assert masters == {"kv", "ctl", "out"}
    assert all(
        bits == rm.WORD_BYTES * 8
        for name, (_, bits) in found.items()
        if name.endswith(("_rdata", "_wdata")) and name.startswith("m_axi")
    )
