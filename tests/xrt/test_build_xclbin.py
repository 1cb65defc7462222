# SPDX-License-Identifier: Apache-2.0
"""What `nearkv build` makes with a played Vitis, read by the parser of XRT itself: names, offsets, banks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from nearkv.cli import main
from nearkv_driver import regmap

from tests.support.rtl_tools import needs
from tests.support.vitis_install import install

HERE = Path(__file__).parent
HEADERS = (Path("/usr/include/xrt"), Path("/opt/xilinx/xrt/include"))
needs_xrt = pytest.mark.skipif(
    not any((folder / "experimental" / "xrt_xclbin.h").is_file() for folder in HEADERS),
    reason="not installed: XRT's headers (apt-get install libxrt-dev uuid-dev)",
)


@pytest.fixture(scope="module")
def list_xclbin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("list_xclbin")
    program = folder / "list_xclbin"
    line = ["g++", "-std=c++17", "-Wall", "-Wextra", *(f"-I{path}" for path in HEADERS if path.is_dir())]
    line += [str(HERE / "list_xclbin.cpp"), "-o", str(program), "-L/opt/xilinx/xrt/lib", "-lxrt_coreutil", "-luuid"]
    done = subprocess.run([*line, "-pthread"], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return program


def run(program: Path, xclbin: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), str(xclbin)], capture_output=True, text=True, timeout=60, check=False, start_new_session=True
    )


def built(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Path:
    for name, value in install(folder, "2022.1").environ().items():
        monkeypatch.setenv(name, value)
    assert main(["build", "--output", str(folder / "out"), *arguments]) == 0
    (found,) = (folder / "out").glob("*.xclbin")
    return found


@needs_xrt
@needs("g++", "tclsh")
def test_xrt_reads_two_units_with_a_bank_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, list_xclbin: Path
) -> None:
    xclbin = built(tmp_path, monkeypatch, "--platform", "u55c", "--flow", "rtl", "--cus", "2")
    done = run(list_xclbin, xclbin)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert (done.returncode, lines[-1]) == (0, ["end"]), done.stderr
    said = {line[0]: line[1:] for line in lines}
    manifest = json.loads(xclbin.with_suffix(".json").read_text())
    assert said["platform"] == [manifest["vendor_platform"]]
    assert said["uuid"] == [manifest["xclbin"]["uuid"]]
    assert [line[1] for line in lines if line[0] == "kernel"] == [regmap.KERNEL]
    arguments = [line[1:5] for line in lines if line[0] == "argument"]
    assert arguments == [
        ["kv", "0", hex(regmap.ADDR_KV), "m_axi_kv"],
        ["ctl", "1", hex(regmap.ADDR_CTL), "m_axi_ctl"],
        ["out", "2", hex(regmap.ADDR_OUT), "m_axi_out"],
    ]
    assert all(set(line[5:]) == {"HBM[0:15]", "HBM[16:31]"} for line in lines if line[0] == "argument")
    chain = "1"  # xrt::xclbin::ip::control_type
    assert [(line[1], line[3]) for line in lines if line[0] == "unit"] == [
        (f"{regmap.KERNEL}:{unit['name']}", chain) for unit in manifest["units"]
    ]
    used = [line[1] for line in lines if line[0] == "memory" and line[4] == "used"]
    assert used == [unit["memory"] for unit in manifest["units"]]


@needs_xrt
@needs("g++")
def test_xrt_reads_the_smartssd_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, list_xclbin: Path) -> None:
    xclbin = built(tmp_path, monkeypatch, "--platform", "u2", "--flow", "hls", "--target", "hw_emu")
    lines = run(list_xclbin, xclbin).stdout.splitlines()
    assert lines[-1] == "end"
    assert "memory bank0 0x4000000000 4194304 used" in lines
    assert f"argument out 2 {regmap.ADDR_OUT:#x} m_axi_out bank0" in lines


@needs_xrt
@needs("g++")
def test_the_program_tells_a_file_that_xrt_refuses(tmp_path: Path, list_xclbin: Path) -> None:
    """Else the tests above could pass on anything."""
    (tmp_path / "x").write_bytes(b"xclbin1" + bytes(1000))
    done = run(list_xclbin, tmp_path / "x")
    assert done.returncode == 1
    assert "end" not in done.stdout
