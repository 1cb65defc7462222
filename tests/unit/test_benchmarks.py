# SPDX-License-Identifier: Apache-2.0
"""Benchmarks run by hand, so what can be held without measuring is: their types, and commands in the documents."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks.arguments import number, whole

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "benchmarks").glob("*.py"))
NO_COMMANDS = {"arguments", "kernel_image", "shapes"}
# A command ends with its line, at a backtick or a shell's word; an option may stand for many (`--folder FOLDER`).
COMMAND = re.compile(r"(?:python|\$\(PYTHON\)) benchmarks/([a-z_]+)\.py([^`\n#>|;)]*)")


def commands() -> list[tuple[str, str, str]]:
    """(document, benchmark, what follows its name) of every command that a document or the Makefile has."""
    found = []
    for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "Makefile", *FILES]:
        found += [(path.name, *match) for match in COMMAND.findall(path.read_text(encoding="utf-8"))]
    return found


def test_types_of_every_benchmark_are_checked() -> None:
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["modules"]
    assert checked == [path.stem for path in FILES]


def test_every_benchmark_is_named_in_a_document() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    for path in FILES:
        assert path.stem in NO_COMMANDS or f"benchmarks/{path.name}" in pages, path.name


@pytest.mark.parametrize(("document", "name", "line"), sorted(set(commands())))
def test_commands_name_options_that_exist(document: str, name: str, line: str) -> None:
    source = (ROOT / f"benchmarks/{name}.py").read_text(encoding="utf-8")
    for option in re.findall(r"--[a-z-]+", line):
        declared = f'"{option}"' in source or f'"{option.removeprefix("--")}"' in source  # some are made from a list
        assert declared, f"{document}: benchmarks/{name}.py has no {option}"


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "", "\u0664", "9" * 20])
def test_counts_are_refused_by_value_and_limit(text: str) -> None:
    with pytest.raises(Exception, match=f"{text!r}: a whole number of at least 1 is expected"):
        whole()(text)
    assert whole()("7") == 7
    assert whole(0)("0") == 0


def test_counts_of_whole_blocks() -> None:
    with pytest.raises(Exception, match="'100': a whole number of at least 1, a multiple of 128, is expected"):
        whole(multiple=128)("100")
    assert whole(multiple=128)("256") == 256


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0", "x"])
def test_numbers_are_refused_by_value_and_limit(text: str) -> None:
    with pytest.raises(Exception, match=f"{text!r}: a number above 0 is expected"):
        number(0, above=True)(text)
    assert number(0)("0") == 0.0


def test_a_bad_count_ends_a_benchmark_before_its_work() -> None:
    line = [sys.executable, "benchmarks/volume_churn.py", "--operations", "0"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "argument --operations: '0': a whole number of at least 1 is expected" in done.stderr
