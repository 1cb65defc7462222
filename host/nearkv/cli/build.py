# SPDX-License-Identifier: Apache-2.0
"""`nearkv build`: an xclbin of the kernel with the vendor's Vitis; or, with --dry-run, the commands that would run."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from nearkv_driver.bitstream import (
    BuildRefused,
    ConfigRefused,
    Outcome,
    Plan,
    Request,
    StepFailed,
    build,
    make_plan,
    read_environment,
)
from nearkv_driver.bitstream.commands import Step
from nearkv_driver.bitstream.finding import Finding
from nearkv_driver.bitstream.request import flow_named, platform_named, target_named
from nearkv_driver.bitstream.sources import find_sources
from nearkv_driver.bitstream.tools import find_tools

from nearkv.cli.run import Run
from nearkv.errors import UserError

_OUTPUT = Path("build/xclbin")


def command(
    platform: Annotated[str, typer.Option(help="The card: u2 (SmartSSD), u50, u55c or u280.")],
    flow: Annotated[str, typer.Option(help="Which form of the kernel: hls or rtl.")],
    target: Annotated[str, typer.Option(help="hw for a card, hw_emu for the vendor's simulator.")] = "hw",
    cus: Annotated[int | None, typer.Option(help="Compute units. Default: 1.")] = None,
    frequency: Annotated[int | None, typer.Option(help="The kernel's clock in MHz. Default: the card's, 300.")] = None,
    output: Annotated[Path, typer.Option(help="Folder for the xclbin, its manifest, logs and reports.")] = _OUTPUT,
    config: Annotated[
        Path | None, typer.Option(help="A link configuration of your own; it is checked before any tool runs.")
    ] = None,
    allow_failed_timing: Annotated[
        bool, typer.Option("--allow-failed-timing", help="Take an xclbin that misses its timing or clock.")
    ] = False,
    any_vitis: Annotated[
        bool, typer.Option("--any-vitis", help="Go on with a Vitis version that the card is not known to work with.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the commands; start and write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The manifest on stdout and nothing else.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> Run:
    """Build an xclbin with Vitis, which must be installed; a build for a card takes hours."""

    def request() -> Request:
        if dry_run and as_json:
            raise UserError("--dry-run makes no manifest for --json to show; leave one of them out")
        return Request(
            platform=platform_named(platform),
            flow=flow_named(flow),
            target=target_named(target),
            output=output,
            cus=cus,
            frequency_mhz=frequency,
            config=config,
            any_vitis=any_vitis,
            allow_failed_timing=allow_failed_timing,
        )

    return Run(partial(_run, request, dry_run, as_json), debug)


def _run(request: Callable[[], Request], dry_run: bool, as_json: bool) -> int:
    try:
        return _build(request(), dry_run, as_json)
    except ConfigRefused as error:
        _tell(error.file, error.findings)
        raise UserError(str(error)) from error
    except BuildRefused as error:
        raise UserError(str(error)) from error
    except StepFailed as error:
        for line in error.lines:
            sys.stderr.write(f"  {line}\n")
        raise


def _build(request: Request, dry_run: bool, as_json: bool) -> int:
    sources = find_sources()
    if dry_run:
        _show_plan(make_plan(request, sources, None))
        return 0
    make_plan(request, sources, None)  # what was asked is judged before a tool is looked for
    environment = read_environment()
    tools = find_tools(environment, request)
    plan = make_plan(request, sources, tools)
    _tell(str(request.config or plan.config), plan.notes)
    outcome = build(plan, tools, environment, _announce)
    reason = outcome.document["timing"]["reason"]
    if reason:  # --allow-failed-timing let it pass
        sys.stderr.write(f"nearkv: warning: {reason}\n")
    if as_json:
        sys.stdout.write(json.dumps(outcome.document, indent=2) + "\n")
    else:
        _show(outcome)
    return 0


def _announce(step: Step, log: Path) -> None:
    sys.stderr.write(f"nearkv: {step.name}: {Path(step.command[0]).name}, log {log}\n")


def _tell(file: str, findings: tuple[Finding, ...]) -> None:
    for finding in findings:
        sys.stderr.write(f"{finding.at(file)}\n")


def _show_plan(plan: Plan) -> None:
    """What a shell would be given, the configuration as a comment."""
    lines = [f"# {plan.xclbin}", f"# {plan.config}:", *(f"#   {line}" for line in plan.config_text.splitlines())]
    lines += [f"# {finding.at(str(plan.config))}" for finding in plan.notes]
    for step in plan.steps:
        lines += [f"# {step.name}", shlex.join(step.command)]
    sys.stdout.write("\n".join(lines) + "\n")


def _show(outcome: Outcome) -> None:
    """Plain lines: file names must survive being copied."""
    document = outcome.document
    clock = document["clock"]
    achieved = "not stated" if clock["achieved_mhz"] is None else f"{clock['achieved_mhz']} MHz"
    rows = [
        ("xclbin", str(outcome.xclbin)),
        ("manifest", str(outcome.manifest)),
        ("clock", f"{achieved}, {clock['requested_mhz']} MHz asked for"),
        ("timing", _timing(document["timing"])),
    ]
    for where in ("kernel", "device"):
        uses = document["utilisation"][where]
        text = ", ".join(f"{name} {_use(use)}" for name, use in uses.items())
        rows.append((where, text or "no report of resources"))
    rows += [("note", note) for note in document["notes"]]
    sys.stdout.writelines(f"{name:9} {text}\n" for name, text in rows)


def _timing(timing: dict[str, Any]) -> str:
    if "wns_ns" not in timing:
        return timing["reason"] or str(timing["closure"])
    text = f"{timing['closure']}, slack {timing['wns_ns']} ns"
    return f"{text} ({timing['reason']})" if timing["reason"] else text


def _use(use: dict[str, Any]) -> str:
    return f"{use['used']:g}" + ("" if use["percent"] is None else f" ({use['percent']:g} %)")
