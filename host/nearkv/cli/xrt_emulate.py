# SPDX-License-Identifier: Apache-2.0
"""`nearkv xrt-emulate`: run a program that uses XRT against emulated cards; its exit status is passed on.

The emulation is imported when the command runs, as transports are: this package depends on the driver only.
"""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from nearkv.cli.run import Run
from nearkv.errors import UserError, one_line

_EMULATE = "nearkv_emulation.xrt_run.emulate"


def command(
    program: Annotated[list[str], typer.Argument(help="The program and its arguments, after `--`.", metavar="COMMAND")],
    kernel: Annotated[str, typer.Option(help="What computes: hls, model or rtl.")] = "hls",
    devices: Annotated[int, typer.Option(help="Cards; with more than one the host's library starts them.")] = 1,
    xclbin: Annotated[
        Path | None,
        typer.Option(help="The design of the cards, for a card or for emulation. Default: a SmartSSD with one unit."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A model of another kernel of the xclbin, NAME=MODULE:FUNCTION; may be given again."),
    ] = None,
    attach: Annotated[
        bool | None,
        typer.Option("--attach/--launch", help="Who starts the device process. Default: attach for one card."),
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which the program is killed.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the run's folder in place and say where it is.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> Run:
    """Run COMMAND with emulated cards behind the real XRT. NEARKV_XCLBIN tells it which file to load."""
    options = {
        "kernel": kernel,
        "devices": devices,
        "xclbin": xclbin,
        "models": tuple(model or ()),
        "attach": attach,
        "timeout_s": timeout,
        "keep": keep,
    }
    return Run(partial(_run, program, options), debug)


def _run(program: list[str], options: dict[str, Any]) -> int:
    emulation: Any = importlib.import_module(_EMULATE)
    try:
        finished = emulation.emulate(program, emulation.Options(**options))
    except ValueError as error:
        raise UserError(one_line(error)) from error
    if finished.trouble:
        typer.echo(f"nearkv: warning: {finished.trouble}", err=True)
    if finished.folder is not None:
        typer.echo(f"nearkv: the run's folder is {finished.folder}", err=True)
    return int(finished.status)
