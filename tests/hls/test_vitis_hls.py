# SPDX-License-Identifier: Apache-2.0
"""hls.tcl under tclsh with recorded commands, and hls.cfg: the kernel of the register map, a card of the table."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from nearkv_driver import regmap
from nearkv_driver.bitstream import load_platforms

from tests.support.rtl_tools import needs

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "fpga" / "hls" / "vitis"
STUBS = ROOT / "tests" / "support" / "vitis_stubs.tcl"
SMARTSSD = load_platforms()["u2"]


def run(folder: Path, *arguments: str) -> list[list[str]]:
    log = folder / "log"
    line = ["tclsh", STUBS, log, FOLDER / "hls.tcl", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [re.findall(r"\{[^}]*\}|\S+", call) for call in log.read_text().splitlines()]


@needs("tclsh")
def test_the_steps_come_in_order(tmp_path: Path) -> None:
    names = [call[0] for call in run(tmp_path)]
    assert names == [
        "open_project",
        "set_top",
        "add_files",
        "add_files",
        "open_solution",
        "set_part",
        "create_clock",
        "csim_design",
        "csynth_design",
        "export_design",
        "exit",
    ]


@needs("tclsh")
def test_it_is_the_kernel_at_the_clock_of_the_card(tmp_path: Path) -> None:
    calls = {call[0]: call[1:] for call in run(tmp_path) if call[0] != "add_files"}
    assert calls["set_top"] == [regmap.KERNEL]
    assert calls["set_part"] == [SMARTSSD.part]
    assert calls["create_clock"] == ["-period", f"{SMARTSSD.frequency_mhz}MHz"]
    assert calls["open_solution"][1:3] == ["-flow_target", "vitis"]
    assert calls["export_design"][:2] == ["-format", "xo"]
    files = [call for call in run(tmp_path) if call[0] == "add_files"]
    paths = [next(word for word in call[1:] if word.endswith(".cpp")) for call in files]
    assert [Path(path).resolve().name for path in paths if Path(path).is_file()] == [
        f"{regmap.KERNEL}.cpp",
        f"{regmap.KERNEL}_tb.cpp",
    ]
    assert all("csim_include" not in " ".join(call) for call in files)


@needs("tclsh")
@pytest.mark.parametrize("key", ["u50", "u280"])
def test_an_argument_replaces_the_part(tmp_path: Path, key: str) -> None:
    part = load_platforms()[key].part
    assert ["set_part", part] in run(tmp_path, "-f", "hls.tcl", part)


@needs("tclsh")
def test_the_tool_s_own_options_are_no_part(tmp_path: Path) -> None:
    assert ["set_part", SMARTSSD.part] in run(tmp_path, "-f", "hls.tcl")


def test_the_unified_flow_says_the_same() -> None:
    lines = dict(
        line.split("=", 1) for line in (FOLDER / "hls.cfg").read_text().splitlines() if "=" in line and line[0] != "#"
    )
    assert lines["part"] == SMARTSSD.part
    assert lines["clock"] == f"{SMARTSSD.frequency_mhz}MHz"
    assert (lines["syn.top"], lines["flow_target"]) == (regmap.KERNEL, "vitis")
    for key in ("syn.file", "tb.file"):
        assert (FOLDER / lines[key]).is_file()
