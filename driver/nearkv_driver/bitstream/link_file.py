# SPDX-License-Identifier: Apache-2.0
"""Reads a v++ configuration file into its entries. Knows sections and lines, not what the keys mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nearkv_driver.bitstream.errors import BuildRefused
from nearkv_driver.bitstream.finding import Finding
from nearkv_driver.bounded_file import TEXT_NBYTES_MAX, FileRefused, read_file

# Sections that v++ knows. Only those that place the kernel are checked.
SECTIONS = frozenset(
    ("advanced", "clock", "connectivity", "debug", "hls", "linker", "package", "profile", "vivado", "linkhls")
)


@dataclass(frozen=True)
class Entry:
    """`key=value` at a line; `section` is empty above the first one."""

    section: str
    key: str
    value: str
    line: int


def read_link(path: Path) -> str:
    """BuildRefused says why the file cannot be read."""
    try:
        return read_file(path, TEXT_NBYTES_MAX).decode("utf-8-sig")
    except FileRefused as error:
        raise BuildRefused(f"{path} {error.reason}") from error
    except UnicodeDecodeError as error:
        raise BuildRefused(f"{path}: not UTF-8 text at byte {error.start}") from error


def parse_link(text: str) -> tuple[list[Entry], list[Finding]]:
    """Entries in order, and what is no entry."""
    entries, findings, section = [], [], ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
            if section not in SECTIONS:
                findings.append(Finding(number, f"section [{section}]; v++ knows {', '.join(sorted(SECTIONS))}"))
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not key or not value:
            findings.append(Finding(number, f"{line!r} is neither key=value nor a [section]"))
            continue
        entries.append(Entry(section, key, value, number))
    return entries, findings
