# SPDX-License-Identifier: Apache-2.0
"""`nearkv xclbin info` and `nearkv xclbin pack`: what a binary says of itself, and one made from a description."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from nearkv_driver.bounded_file import XCLBIN_NBYTES_MAX, FileRefused, read_file
from nearkv_driver.xclbin import Container, Design, Mode, XclbinError, read_container
from nearkv_driver.xclbin.design_file import read_design
from nearkv_driver.xclbin.tables import BankType, ClockType
from rich.console import Console

from nearkv.cli.run import Run
from nearkv.cli.table import columns
from nearkv.errors import UserError

app = typer.Typer(help="Look into an xclbin file, or make one.", no_args_is_help=True)

_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else.")]
_Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@app.command()
def info(
    file: Annotated[Path, typer.Argument(help="An xclbin file.")], as_json: _Json = False, debug: _Debug = False
) -> Run:
    """Show platform, clocks, banks, compute units and sections of an xclbin file."""
    return Run(partial(_info, file, as_json), debug)


@app.command()
def pack(
    design: Annotated[Path, typer.Argument(help="Description of the design, TOML (docs/api.md).")],
    bitstream: Annotated[Path, typer.Option(help="What goes into the BITSTREAM section.")],
    output: Annotated[Path, typer.Option(help="The file to write; it must not exist.")],
    debug: _Debug = False,
) -> Run:
    """Make an xclbin file. It holds the bitstream that it is given: nothing is synthesised."""
    return Run(partial(_pack, design, bitstream, output), debug)


def _info(file: Path, as_json: bool) -> int:
    try:
        container = read_container(file)
        document = describe(container, Design.of(container, str(file)), file)
    except XclbinError as error:
        raise UserError(str(error)) from error
    if as_json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _show(document)
    return 0


def _pack(design: Path, bitstream: Path, output: Path) -> int:
    try:
        data = read_design(design).container(_read(bitstream)).pack()
    except XclbinError as error:
        raise UserError(str(error)) from error
    temporary = output.with_name(output.name + ".part")
    if output.exists():
        raise UserError(f"{output} exists; give another --output or remove it")
    try:
        temporary.write_bytes(data)
        os.link(temporary, output)  # fails where someone else has made it meanwhile
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return 0


def _read(path: Path) -> bytes:
    try:
        return read_file(path, XCLBIN_NBYTES_MAX)
    except FileRefused as error:
        raise UserError(f"{path} {error.reason}") from error


def describe(container: Container, design: Design, file: Path) -> dict[str, Any]:
    """Everything as one document; sizes in bytes, addresses as numbers."""
    header = container.header
    kernels = {kernel.name: kernel for kernel in design.kernels}
    units = []
    for unit in design.units:
        kernel = kernels.get(unit.kernel)
        arguments = [
            {"name": a.name, "offset": a.offset, "port": a.port, "bank": unit.banks.get(a.name)}
            for a in (kernel.arguments if kernel else ())
        ]
        protocol = kernel.protocol.name.lower() if kernel else None
        units.append(
            {"name": unit.name, "kernel": unit.kernel, "base": unit.base, "protocol": protocol, "arguments": arguments}
        )
    return {
        "file": str(file),
        "platform": header.platform,
        "uuid": str(header.uuid),
        "mode": _named(Mode, header.mode),
        "signed": bool(container.signature),
        "clocks": [{"name": c.name, "mhz": c.mhz, "type": _named(ClockType, c.type)} for c in design.clocks],
        "banks": [
            {"tag": b.tag, "base": b.base, "nbytes": b.nbytes, "type": _named(BankType, b.type), "used": b.used}
            for b in design.banks
        ],
        "units": units,
        "sections": [
            {"kind": s.label, "name": s.name, "offset": s.offset, "nbytes": len(s.data)} for s in container.sections
        ],
    }


def _named(kind: Any, value: int) -> str:
    return str(kind(value).name.lower()) if value in kind._value2member_map_ else f"unknown ({value})"


def _show(document: dict[str, Any]) -> None:
    console = Console(file=sys.stdout)
    for key in ("file", "platform", "uuid", "mode"):
        console.print(f"{key:9} {document[key]}", highlight=False, markup=False, soft_wrap=True)
    rows: list[tuple[str, ...]] = [("clock", c["name"], f"{c['mhz']} MHz", c["type"]) for c in document["clocks"]]
    rows += [
        ("bank", b["tag"], f"{b['base']:#x}", f"{b['nbytes']:,} bytes{'' if b['used'] else ', unused'}")
        for b in document["banks"]
    ]
    for unit in document["units"]:
        rows.append(("unit", unit["name"], f"{unit['base']:#x}", unit["protocol"] or "not in the metadata"))
        rows += [
            ("argument", f"{unit['name']}.{a['name']}", f"{a['offset']:#x}", f"{a['port']} on {a['bank'] or 'nothing'}")
            for a in unit["arguments"]
        ]
    rows += [("section", s["kind"], str(s["offset"]), f"{s['nbytes']:,} bytes") for s in document["sections"]]
    console.print(columns(("", "name", "at", ""), rows))
