# SPDX-License-Identifier: Apache-2.0
"""fpga/rtl: no warning of Verilator or Icarus, parses with pyverilog, its tables are what is generated."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from nearkv_emulation import rtl_tables
from nearkv_emulation.rtl_build import TOP, environment, rtl_folder, rtl_sources

from tests.support.rtl_tools import needs_icarus, needs_pyverilog, needs_verilator, patient

pytestmark = patient

SOURCES = rtl_sources()


def ran(command: list[str], folder: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


@needs_verilator
def test_verilator_lint(tmp_path: Path) -> None:
    folder = rtl_folder()
    command = ["verilator", "--lint-only", "-Wall", "--language", "1364-2005", f"-I{folder}", "--top-module", TOP]
    done = ran([*command, str(folder / "lint.vlt"), *map(str, SOURCES)], tmp_path, environment())
    assert (done.returncode, done.stderr) == (0, "")


@needs_icarus
def test_icarus_lint(tmp_path: Path) -> None:
    done = ran(["iverilog", "-g2005", "-Wall", "-t", "null", f"-I{rtl_folder()}", *map(str, SOURCES)], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_one_module_of_this_name(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("// SPDX-License-Identifier: Apache-2.0\n// ")
    assert text.count("\nmodule ") == 1
    assert f"\nmodule {path.stem} " in text
    assert text.count("`resetall") == 2
    assert text.endswith("`resetall\n")
    assert "`default_nettype none" in text


@needs_pyverilog
@needs_icarus  # pyverilog runs it as its preprocessor
def test_pyverilog_reads_every_file(tmp_path: Path) -> None:
    from pyverilog.vparser import parser

    codeparser = parser.VerilogCodeParser(
        [str(path) for path in SOURCES],
        preprocess_output=str(tmp_path / "pp.v"),
        outputdir=str(tmp_path),
        debug=False,
        preprocess_include=[str(rtl_folder())],
    )
    names = {
        definition.name for definition in codeparser.parse().description.definitions if hasattr(definition, "name")
    }
    assert {path.stem for path in SOURCES} <= names


def test_tables_are_what_is_generated() -> None:
    assert rtl_tables.main([str(rtl_folder()), "--check"]) == 0


def test_a_drifted_table_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rtl_tables.main([str(tmp_path)])
    path = tmp_path / "exp2_table.vh"
    path.write_text(path.read_text().replace("39'h", "39'h0", 1))
    assert rtl_tables.main([str(tmp_path), "--check"]) == 1
    assert "exp2_table.vh" in capsys.readouterr().err
