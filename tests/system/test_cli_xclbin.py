# SPDX-License-Identifier: Apache-2.0
"""`nearkv xclbin`: pack, then info; bad input is one line and leaves no file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from nearkv.cli import main

DESIGN = Path(__file__).parents[1] / "unit" / "driver" / "xclbin" / "design.toml"


def pack(folder: Path, design: Path = DESIGN) -> tuple[int, Path]:
    (folder / "bits").write_bytes(b"\x01" * 1000)
    output = folder / "a.xclbin"
    return main(["xclbin", "pack", str(design), "--bitstream", str(folder / "bits"), "--output", str(output)]), output


def test_pack_then_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output = pack(tmp_path)
    assert code == 0
    assert main(["xclbin", "info", str(output), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["platform"] == "xilinx_u2_gen3x4_xdma_gc_2_202110_1"
    assert document["banks"][0] == {"tag": "bank0", "base": 1 << 38, "nbytes": 1 << 32, "type": "ddr4", "used": True}
    unit = document["units"][0]
    assert (unit["protocol"], unit["base"]) == ("ap_ctrl_chain", 0x1800000)
    assert [(a["name"], a["offset"], a["bank"]) for a in unit["arguments"]] == [
        ("kv", 0x10, "bank0"),
        ("ctl", 0x1C, "bank0"),
        ("out", 0x28, "bank0"),
    ]
    assert main(["xclbin", "info", str(output)]) == 0
    text = capsys.readouterr().out
    assert "nearkv_attend_1.ctl" in text
    assert "300 MHz" in text


def test_an_existing_file_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.xclbin").write_bytes(b"mine")
    code, output = pack(tmp_path)
    assert (code, output.read_bytes()) == (2, b"mine")
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize("bits", ["/dev/zero", "pipe", "folder"])
def test_a_bitstream_without_an_end_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], bits: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    output = tmp_path / "a.xclbin"
    line = ["xclbin", "pack", str(DESIGN), "--bitstream", str(tmp_path / bits), "--output", str(output)]
    assert (main(line), output.exists()) == (2, False)
    assert f"{tmp_path / bits} is no regular file" in capsys.readouterr().err


def test_bad_input_is_one_line_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output = pack(tmp_path, tmp_path / "none.toml")
    assert (code, output.exists()) == (2, False)
    (tmp_path / "b.xclbin").write_bytes(b"xclbin2\0" + bytes(100))
    assert main(["xclbin", "info", str(tmp_path / "b.xclbin")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "none.toml: cannot be read" in lines[0]
    assert "ends after 108 bytes" in lines[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.xclbin", "bits"]
