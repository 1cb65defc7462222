# SPDX-License-Identifier: Apache-2.0
"""The script that packages the RTL for Vitis, run under tclsh with recorded commands; and kernel.xml beside it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from nearkv_driver import regmap
from nearkv_driver.xclbin.kernel import nearkv_kernel
from nearkv_driver.xclbin.kernel_file import main

from tests.support.rtl_tools import needs

FOLDER = Path(__file__).parents[2] / "fpga" / "rtl"
STUBS = Path(__file__).parents[1] / "support" / "vitis_stubs.tcl"
BLOCK = "core/s_axi_control/reg0"


def package(folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    log = folder / "log"
    line = ["tclsh", STUBS, log, FOLDER / "vitis" / "package_kernel.tcl", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    return done, log.read_text().splitlines()


@needs("tclsh")
def test_every_source_and_every_port_is_packaged(tmp_path: Path) -> None:
    output = tmp_path / "out" / "k.xo"
    done, calls = package(tmp_path, str(output), "xcu50-fsvh2104-2-e")
    assert (done.returncode, done.stderr) == (0, "")
    assert calls[0].endswith("-part xcu50-fsvh2104-2-e")
    added = " ".join(call for call in calls if call.startswith("add_files"))
    assert [path.name for path in FOLDER.glob("*.v*") if path.suffix != ".vlt" and f"/{path.name}" not in added] == []
    ports = [call.split()[2] for call in calls if call.startswith("ipx::associate_bus_interfaces")]
    assert sorted(ports) == sorted(port.name for port in nearkv_kernel().ports)
    assert [call.split()[1] for call in calls if call.startswith("ipx::remove_user_parameter")] == ["LANES", "ROWS"]
    assert "set_property sdx_kernel true core" in calls
    last = calls[-1].split()
    assert last[:3] == ["package_xo", "-xo_path", str(output)]
    assert last[last.index("-kernel_name") + 1] == nearkv_kernel().name
    assert Path(last[last.index("-kernel_xml") + 1]).resolve() == FOLDER / "vitis" / "kernel.xml"


@needs("tclsh")
def test_the_registers_are_those_of_the_register_map(tmp_path: Path) -> None:
    """Offsets, widths, bits and the master behind each pointer, against regmap.toml itself."""
    _, calls = package(tmp_path, str(tmp_path / "k.xo"))
    properties: dict[str, dict[str, str]] = {}
    for words in (call.split() for call in calls if call.startswith("set_property") and BLOCK in call):
        properties.setdefault(words[3].removeprefix(f"{BLOCK}/"), {})[words[1]] = words[2]
    found = {name: p for name, p in properties.items() if "/" not in name}
    with (FOLDER.parent / "regmap.toml").open("rb") as file:
        registers = tomllib.load(file)["registers"]
    assert {name.upper(): int(p["address_offset"], 0) for name, p in found.items()} == {
        name: register["offset"] for name, register in registers.items()
    }
    assert {name.upper(): int(p["size"]) for name, p in found.items()} == {
        name: register.get("bits", 32) for name, register in registers.items()
    }
    bits = {name: int(p["bit_offset"]) for name, p in properties.items() if "bit_offset" in p}
    assert {name.replace("AP_", ""): bit for name, bit in bits.items()} == {
        f"{name}/{field}": spec["bit"]
        for name, register in registers.items()
        for field, spec in register.get("fields", {}).items()
    }
    buses = {name: p["value"] for name, p in properties.items() if name.endswith("/ASSOCIATED_BUSIF")}
    assert buses == {f"{name}/ASSOCIATED_BUSIF": f"m_axi_{name}" for name in ("kv", "ctl", "out")}
    assert f"set_property slave_memory_map_ref s_axi_control {BLOCK.rpartition('/')[0]}" in calls
    assert "set_property vitis_drc {ctrl_protocol ap_ctrl_chain} core" in calls
    assert int(found["out"]["address_offset"], 0) == regmap.ADDR_OUT


@needs("tclsh")
def test_a_kernel_xml_without_arguments_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "rtl"
    shutil.copytree(FOLDER, copy)
    xml = copy / "vitis" / "kernel.xml"
    xml.write_text(re.sub("<arg .*/>", "", xml.read_text()))
    line = ["tclsh", STUBS, tmp_path / "log", copy / "vitis" / "package_kernel.tcl", str(tmp_path / "k.xo")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "no <arg> in it" in done.stderr


@needs("tclsh")
def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    output = tmp_path / "k.xo"
    output.write_text("mine")
    done, calls = package(tmp_path, str(output))
    assert (done.returncode, calls) == (1, [])
    assert f"{output} exists" in done.stderr


@needs("tclsh")
@pytest.mark.parametrize("arguments", [(), ("a.xo", "part", "more")])
def test_wrong_arguments_are_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done, calls = package(tmp_path, *arguments)
    assert (done.returncode, calls) == (1, [])
    assert "OUTPUT.xo" in done.stderr


def test_kernel_xml_is_what_the_register_map_gives() -> None:
    assert main(["--check"]) == 0


def test_a_drifted_kernel_xml_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "kernel.xml"
    copy.write_text(nearkv_kernel().xml().replace('offset="0x1c"', 'offset="0x18"'))
    assert main(["--check"], copy) == 1
    assert "python -m nearkv_driver.xclbin.kernel_file" in capsys.readouterr().err
    assert main([], copy) == 0
    assert main(["--check"], copy) == 0
