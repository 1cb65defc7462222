# SPDX-License-Identifier: Apache-2.0
"""The contract file and the forms that are generated from it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from enum import IntEnum, IntFlag
from pathlib import Path

import pytest
from nearkv_driver import regmap
from nearkv_driver.exp2_table import exp2_table
from nearkv_driver.layout import Layout
from nearkv_driver.regmap_gen import FORMS, ROOT, SOURCE, contract_hash, drifted, load, main

STRUCTS = {name: value for name, value in vars(regmap).items() if isinstance(value, Layout)}
NUMBERS = {n: v for n, v in vars(regmap).items() if n.isupper() and type(v) is int}
PREFIXES = {
    "Opcode": "OPCODE",
    "JobFlag": "JOB_FLAG",
    "ElementFormat": "ELEMENT_FORMAT",
    "Kind": "KIND",
    "StatusFlag": "STATUS_FLAG",
    "Implementation": "IMPLEMENTATION",
    "Status": "STATUS",
}
CODES = {
    f"{prefix}_{member.name}": int(member)
    for name, prefix in PREFIXES.items()
    for member in getattr(regmap, name)
    if isinstance(member, IntEnum | IntFlag)
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository that holds the contract and its forms only."""
    for name in (SOURCE, *FORMS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def edit(root: Path, old: str, new: str, name: str = SOURCE) -> None:
    text = (root / name).read_text()
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
    (root / name).write_text(text.replace(old, new))


def test_the_generated_files_are_those_of_the_contract() -> None:
    assert drifted(ROOT) == []


def test_generating_again_changes_nothing(copy: Path) -> None:
    assert main(["--root", str(copy)]) == 0
    assert all((copy / name).read_bytes() == (ROOT / name).read_bytes() for name in FORMS)


SEGMENT_V = 'name = "v_addr", offset = 16'


def test_a_changed_offset_is_drift(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(copy, "[registers.OUT]\noffset = 0x28", "[registers.OUT]\noffset = 0x28\nnote = 1")
    assert main(["--root", str(copy), "--check"]) == 1
    assert "driver/nearkv_driver/regmap.py does not match" in capsys.readouterr().err


@pytest.mark.parametrize("name", FORMS)
def test_an_edited_form_is_drift(copy: Path, name: str) -> None:
    (copy / name).write_text((copy / name).read_text() + "\n")
    assert drifted(copy) == [name]


def test_a_missing_form_is_drift(copy: Path) -> None:
    (copy / "fpga/rtl/regmap.vh").unlink()
    assert drifted(copy) == ["fpga/rtl/regmap.vh"]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[registers.CTL]\noffset = 0x1C", "[registers.CTL]\noffset = 0x18", "registers.CTL at 0x18"),
        (SEGMENT_V, 'name = "v_addr", offset = 12', "structs.segment.v_addr overlaps"),
        (SEGMENT_V, 'name = "v_addr", offset = 20', "structs.segment.v_addr overlaps its neighbour or is not aligned"),
        ("[structs.segment]\nnbytes = 64", "[structs.segment]\nnbytes = 96", "structs.segment: 96 bytes"),
        ("[structs.segment]\nnbytes = 64", "[structs.segment]\nnbytes = 16", "structs.segment has 16 bytes"),
        ("not_run = { value = 2,", "not_run = { value = 1,", "enums.status_codes uses a value twice"),
    ],
)
def test_contradictions_are_refused(copy: Path, old: str, new: str, sentence: str) -> None:
    edit(copy, old, new)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        load(copy / SOURCE)


def test_the_hash_follows_meaning_and_not_prose(copy: Path) -> None:
    before = contract_hash(load(copy / SOURCE))
    assert before == regmap.REGMAP_HASH
    edit(copy, 'doc = "an earlier job of the list failed"', 'doc = "in other words"')
    assert contract_hash(load(copy / SOURCE)) == before
    edit(copy, "rows_max = { value = 64,", "rows_max = { value = 32,")
    assert contract_hash(load(copy / SOURCE)) != before


def verilog_defines() -> dict[str, int]:
    """Every `define of the Verilog form, as a number."""
    found = {}
    pattern = re.compile(r"`define NK_(\w+) (\(-32'sd(\d+)\)|(?:\d+'[hd])?([0-9A-F]+))")
    for line in (ROOT / "fpga/rtl/regmap.vh").read_text().splitlines():
        match = pattern.match(line)
        if match is None:
            assert not line.startswith("`define NK_"), line
            continue
        base = 16 if "'h" in match[2] else 10
        found[match[1]] = -int(match[3]) if match[3] else int(match[4], base)
    return found


def test_verilog_and_python_hold_the_same_numbers() -> None:
    defines = verilog_defines()
    expected = NUMBERS | CODES
    for name, layout in STRUCTS.items():
        expected[f"{name}_NBYTES"] = layout.nbytes
        for f in layout.fields:
            expected[f"{name}_{f.name.upper()}_LSB"] = f.offset * 8
            expected[f"{name}_{f.name.upper()}_WIDTH"] = 64 if f.type == "u64" else 32
    expected |= {f"HEAD_SIZE_{i}": d for i, d in enumerate(regmap.HEAD_SIZES)}
    expected["HEAD_SIZE_COUNT"] = len(regmap.HEAD_SIZES)
    assert defines == expected


def cpp_checks() -> str:
    """A C++ file that compiles only where every number of the C++ form is Python's."""
    lines = ["#include <regmap.hpp>", "#include <exp2_table.hpp>", "namespace r = nearkv::regmap;"]

    def same(expression: str, value: int) -> None:
        lines.append(f'static_assert((long long)({expression}) == {value}LL, "{expression}");')

    for name, value in (NUMBERS | CODES).items():
        same(f"r::{name}", value)
    for name, layout in STRUCTS.items():
        same(f"r::{layout.name}::NBYTES", layout.nbytes)
        for f in layout.fields:
            path = f"r::{layout.name}::{f.name}"
            same(f"{path}.word * 64 + {path}.lsb / 8", f.offset)
            same(f"{path}.width", 64 if f.type == "u64" else 32)
            assert name == layout.name.upper()
    for i, d in enumerate(regmap.HEAD_SIZES):
        same(f"r::HEAD_SIZES[{i}]", d)
    for values, table in zip(exp2_table(), ("EXP2_BASE", "EXP2_SLOPE"), strict=True):
        for i, value in enumerate(values):
            same(f"nearkv::{table}[{i}]", value)
    return "\n".join(lines).replace("-2147483648LL", "-2147483647LL - 1") + "\n"


def compiles(text: str, folder: Path) -> bool:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed")
    source = folder / "checks.cpp"
    source.write_text(text)
    command = [
        compiler,
        "-std=c++14",
        "-fsyntax-only",
        "-Wall",
        "-Werror",
        f"-I{ROOT / 'fpga/hls/include'}",
        str(source),
    ]
    return subprocess.run(command, capture_output=True, timeout=120).returncode == 0


CHANGES: list[Callable[[str], str]] = [
    lambda s: s.replace("r::ADDR_OUT) == 40LL", "r::ADDR_OUT) == 44LL"),
    lambda s: s.replace("EXP2_BASE[7]) == ", "EXP2_BASE[7]) == 1"),
]


def test_cpp_and_python_hold_the_same_numbers(tmp_path: Path) -> None:
    assert compiles(cpp_checks(), tmp_path)


@pytest.mark.parametrize("change", CHANGES)
def test_the_cpp_check_would_find_a_difference(tmp_path: Path, change: Callable[[str], str]) -> None:
    text = cpp_checks()
    assert change(text) != text
    assert not compiles(change(text), tmp_path)
