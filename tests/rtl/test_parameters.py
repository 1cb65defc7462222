# SPDX-License-Identifier: Apache-2.0
"""Modules of fpga/rtl refuse illegal parameters at elaboration, by the name of a module that does not exist."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from nearkv_emulation.rtl_build import environment, rtl_folder

from tests.support.rtl_tools import needs, needs_icarus, needs_verilator, patient
from tools.rtl import yosys

pytestmark = patient

# module, parameters, what the missing module is called
REFUSED = [
    ("fifo", {"WIDTH": 0}, "fifo_WIDTH_must_be_at_least_1"),
    ("fifo", {"DEPTH": 0}, "fifo_DEPTH_must_be_a_power_of_two_from_2"),
    ("fifo", {"DEPTH": 24}, "fifo_DEPTH_must_be_a_power_of_two_from_2"),
    ("fifo", {"SPARE": 16}, "fifo_SPARE_must_be_from_0_to_DEPTH_minus_1"),
    ("axi_read_stream", {"MAX_BURST": 65}, "axi_read_stream_MAX_BURST_must_be_from_1_to_64"),
    ("axi_read_stream", {"DEPTH": 32}, "axi_read_stream_DEPTH_must_be_a_power_of_two_from_MAX_BURST_to_2048"),
    ("axi_read_stream", {"DEPTH": 4096}, "axi_read_stream_DEPTH_must_be_a_power_of_two_from_MAX_BURST_to_2048"),
    ("axi_read_stream", {"COUNT_BITS": 7}, "axi_read_stream_COUNT_BITS_must_be_from_8_to_58"),
    ("axi_read_arbiter", {"READERS": 0}, "axi_read_arbiter_READERS_must_be_from_1_to_8"),
    ("axi_read_arbiter", {"READERS": 9}, "axi_read_arbiter_READERS_must_be_from_1_to_8"),
    # the FIFO inside says the same, and Verilator names only the first
    ("axi_write", {"DEPTH": 24}, "DEPTH_must_be_a_power_of_two_from_2"),
]
LEGAL = [
    ("fifo", {"WIDTH": 1, "DEPTH": 2, "SPARE": 1}),
    ("axi_read_stream", {"DEPTH": 64, "MAX_BURST": 64, "COUNT_BITS": 8}),
    ("axi_read_arbiter", {"READERS": 1}),
    ("axi_write", {"DEPTH": 2}),
]
Parameters = dict[str, int]
# elaborates a module; whether it was accepted, and what was said
Tool = Callable[[str, Parameters, Path], tuple[bool, str]]


def sources(top: str) -> list[str]:
    """The module and what it instantiates."""
    return [str(rtl_folder() / f"{name}.v") for name in dict.fromkeys((top, "fifo"))]


def icarus(top: str, parameters: Parameters, folder: Path) -> tuple[bool, str]:
    values = [f"-P{top}.{name}={value}" for name, value in parameters.items()]
    command = ["iverilog", "-g2005", "-t", "null", "-s", top, *values, *sources(top)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode == 0, done.stderr


def verilator(top: str, parameters: Parameters, folder: Path) -> tuple[bool, str]:
    values = [f"-G{name}={value}" for name, value in parameters.items()]
    command = ["verilator", "--lint-only", "--language", "1364-2005", "-Wno-lint", "--top-module", top, *values]
    done = subprocess.run([*command, *sources(top)], cwd=folder, env=environment(), capture_output=True, text=True)
    return done.returncode == 0, done.stderr


def yosys_reads(top: str, parameters: Parameters, folder: Path) -> tuple[bool, str]:
    values = " ".join(f"-chparam {name} {value}" for name, value in parameters.items())
    try:
        yosys.run([f"read_verilog {' '.join(sources(top))}", f"hierarchy -check -top {top} {values}"], folder)
    except yosys.YosysFailed as failure:
        return False, str(failure)
    return True, ""


TOOLS = [
    pytest.param(icarus, marks=needs_icarus, id="icarus"),
    pytest.param(verilator, marks=needs_verilator, id="verilator"),
    pytest.param(yosys_reads, marks=needs("python:pyosys"), id="yosys"),
]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(("top", "parameters", "name"), REFUSED)
def test_refused_by_name(tool: Tool, top: str, parameters: Parameters, name: str, tmp_path: Path) -> None:
    accepted, text = tool(top, parameters, tmp_path)
    assert not accepted
    assert name in text


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(("top", "parameters"), LEGAL)
def test_limits_are_legal(tool: Tool, top: str, parameters: Parameters, tmp_path: Path) -> None:
    accepted, text = tool(top, parameters, tmp_path)
    assert accepted, text
