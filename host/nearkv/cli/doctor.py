# SPDX-License-Identifier: Apache-2.0
"""`nearkv doctor`: the checks as a table or as JSON; exit code 1 when something that is needed does not work."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from nearkv.cli.run import Run
from nearkv.cli.table import columns
from nearkv.config import load_settings
from nearkv.doctor import examine, failed
from nearkv.doctor_check import Check
from nearkv.inputs import check_cards


def command(
    card: Annotated[
        list[str] | None,
        typer.Option(help="URL of a card to check; may be given again. Default: the cards that generate would use."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> Run:
    """Check what this machine and its cards can do, with the fix for each failure."""
    return Run(partial(run, tuple(card or ()), as_json), debug)


def run(cards: tuple[str, ...], as_json: bool) -> int:
    """1 where a check failed that is not optional."""
    urls = check_cards(cards or load_settings().cards)
    console = Console(stderr=True)
    with console.status("checking"):
        checks = examine(urls)
    bad = failed(checks)
    if as_json:
        document = {"ok": not bad, "checks": [asdict(check) for check in checks]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        table = columns(
            ("", "what", "found", "fix"), ((_mark(check), check.name, check.found, check.fix) for check in checks)
        )
        Console(file=sys.stdout).print(table)
    return int(bad)


def _mark(check: Check) -> str:
    if check.ok:
        return "ok"
    return "optional" if check.optional else "FAILS"
