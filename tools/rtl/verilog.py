# SPDX-License-Identifier: Apache-2.0
"""Reads Verilog with pyverilog into plain records: modules, ports, parameters, instances. Judges nothing.

pyverilog needs iverilog as its preprocessor. Widths stay expressions here; see `expressions` for their values.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

# A node of pyverilog's syntax tree; the package has no types.
Node = Any


@dataclass(frozen=True)
class Port:
    """A port as declared: `direction` is input, output or inout; `width` is None for one bit."""

    name: str
    direction: str
    width: Node


@dataclass(frozen=True)
class Module:
    """A module as written, before its parameters have values."""

    name: str
    path: Path
    parameters: dict[str, Node]
    ports: dict[str, Port]
    items: tuple[Node, ...]


def read(paths: Iterable[Path], include: Path) -> list[Module]:
    """The modules of Verilog files, file by file. Raises RuntimeError for a missing tool, SyntaxError for bad text."""
    return [module for path in sorted(paths) for module in read_file(path, include)]


def read_file(path: Path, include: Path) -> list[Module]:
    """The modules of one file. Raises SyntaxError that names the file."""
    headers = tuple((header.name, header.read_bytes()) for header in sorted(include.glob("*.vh")))
    return [replace(module, path=path) for module in _read_text(path.name, path.read_bytes(), headers)]


def walk(node: Node) -> Iterator[Node]:
    """A node and everything below it."""
    yield node
    for child in node.children():
        yield from walk(child)


@cache
def _read_text(file: str, content: bytes, headers: tuple[tuple[str, bytes], ...]) -> tuple[Module, ...]:
    from pyverilog.vparser import ast
    from pyverilog.vparser.parser import ParseError

    text = _preprocess(file, content, headers)
    try:
        tree = _parser().parse(text)
    except ParseError as error:
        raise SyntaxError(f"{file}: pyverilog cannot read it: {error}") from None
    definitions = tree.description.definitions
    return tuple(_module(node, Path(file)) for node in definitions if isinstance(node, ast.ModuleDef))


@cache
def _parser() -> Any:
    """One parser for all files: its tables take a second to build."""
    from pyverilog.vparser.parser import VerilogParser

    # It writes parser.out and parsetab.py into the folder it is given.
    with tempfile.TemporaryDirectory() as folder:
        return VerilogParser(outputdir=folder, debug=False)


def _preprocess(file: str, content: bytes, headers: tuple[tuple[str, bytes], ...]) -> str:
    from pyverilog.vparser.preprocessor import preprocess

    if shutil.which("iverilog") is None:
        raise RuntimeError("pyverilog needs iverilog: apt-get install iverilog")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for target, data in ((file, content), *headers):
            (folder / target).write_bytes(data)
        return str(preprocess([str(folder / file)], output=str(folder / "pp.v"), include=[name]))


def _module(node: Node, path: Path) -> Module:
    from pyverilog.vparser import ast

    parameters = {
        item.name: item.value.var
        for declaration in node.paramlist.params
        for item in declaration.list
        if isinstance(item, ast.Parameter)
    }
    ports = {}
    for port in node.portlist.ports:
        if not isinstance(port, ast.Ioport):
            raise SyntaxError(f"{path.name}: module {node.name}: port {port.name} is not declared in the port list")
        first = port.first
        ports[first.name] = Port(first.name, type(first).__name__.lower(), first.width)
    return Module(node.name, path, parameters, ports, tuple(node.items))
