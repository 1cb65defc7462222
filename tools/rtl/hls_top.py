# SPDX-License-Identifier: Apache-2.0
"""Reads the interface of an HLS top: its C++ signature and its INTERFACE pragmas. Reads no other C++."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Argument:
    """A pointer argument. A pointer to const is only read from, the others are only written to."""

    name: str
    type: str
    reads: bool


@dataclass(frozen=True)
class HlsTop:
    """Name, arguments in order, and the keys of each pragma line."""

    file: str
    name: str
    arguments: tuple[Argument, ...]
    pragmas: tuple[dict[str, str], ...]

    def mode(self, mode: str) -> list[dict[str, str]]:
        """The pragmas of one mode (m_axi, s_axilite, ap_ctrl_chain)."""
        return [pragma for pragma in self.pragmas if pragma.get("mode") == mode]


def only(folder: Path) -> HlsTop:
    """The one top of a folder. Raises SyntaxError when it holds none or several files."""
    files = sorted(folder.glob("*.cpp"))
    if len(files) != 1:
        raise SyntaxError(f"{folder.name} holds {', '.join(file.name for file in files) or 'no top'}; expected one top")
    return read(files[0])


def read(path: Path) -> HlsTop:
    """The top of a file that holds one `extern "C"` function. Raises SyntaxError that names the file."""
    text = path.read_text().replace("\\\n", " ")
    found = re.findall(r'extern\s+"C"\s+void\s+(\w+)\s*\(([^)]*)\)', text)
    if len(found) != 1:
        raise SyntaxError(f'{path.name}: has {len(found)} extern "C" functions; an HLS top is one')
    name, arguments = found[0]
    lines = re.findall(r"^\s*#pragma\s+HLS\s+INTERFACE\s+(.*)$", text, re.M)
    pragmas = tuple(dict(re.findall(r"(\w+)\s*=\s*(\w+)", line)) for line in lines)
    return HlsTop(path.name, name, tuple(_argument(path, part) for part in arguments.split(",")), pragmas)


def word_bits(path: Path) -> int:
    """Width of `word_t`, the word of the masters, in a header."""
    found = re.findall(r"using\s+word_t\s*=\s*ap_uint<(\d+)>\s*;", path.read_text())
    if len(found) != 1:
        raise SyntaxError(f"{path.name}: does not say `using word_t = ap_uint<N>;` once")
    return int(found[0])


def _argument(path: Path, text: str) -> Argument:
    match = re.fullmatch(r"\s*(const\s+)?([\w:]+)\s*\*\s*(\w+)\s*", text)
    if match is None:
        raise SyntaxError(f"{path.name}: argument `{text.strip()}` of the top is no pointer")
    return Argument(match[3], match[2].rpartition("::")[2], match[1] is not None)
