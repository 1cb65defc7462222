# SPDX-License-Identifier: Apache-2.0
"""What the documents name is there: commands of `nearkv` with these options, and files of tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from nearkv.cli.entry import app

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
# To the end of the code or of the line; a word behind the command may be a command of its own (`sessions rm`).
COMMAND = re.compile(r"\bnearkv ([a-z][a-z-]+)((?: [^`\n|#]*)?)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def commands() -> list[tuple[str, str, str]]:
    """(page, name, what follows) of everything that looks like a command with options."""
    found = []
    for path in PAGES:
        for name, rest in COMMAND.findall(path.read_text(encoding="utf-8")):
            if OPTION.search(rest):
                found.append((path.name, name, rest.strip()))
    return sorted(set(found))


def test_documents_have_commands() -> None:
    assert {name for _, name, _ in commands()} >= {"plan", "generate", "doctor", "calibrate"}


@pytest.mark.parametrize(("page", "name", "rest"), commands())
def test_commands_of_the_documents_take_their_options(page: str, name: str, rest: str) -> None:
    command: Any = typer.main.get_command(app)
    for word in (name, *rest.split()):
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert set(OPTION.findall(rest)) <= known | {"--help"}, f"{page}: nearkv {name} {rest}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_tests_that_a_page_names_exist(path: Path) -> None:
    there = {file.stem for file in (ROOT / "tests").rglob("test_*.py")}
    named = set(re.findall(r"(?<![\w.])test_[a-z0-9_]+(?![\w*])", path.read_text(encoding="utf-8")))
    functions = {
        name for file in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    assert named <= there | functions
