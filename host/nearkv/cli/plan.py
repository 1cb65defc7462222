# SPDX-License-Identifier: Apache-2.0
"""`nearkv plan`: options to a question for the planner; its answer as a table, a JSON document, a picture, a trace."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nearkv.cli.output_file import output_file
from nearkv.cli.run import Run
from nearkv.cli.table import columns, two_columns
from nearkv.errors import UserError
from nearkv.planner.hardware import Gpu, Host
from nearkv.planner.hardware_files import load
from nearkv.planner.lanes import new_clock
from nearkv.planner.models import find_model
from nearkv.planner.plan import Plan, Prices, compare, make_plan, rivals
from nearkv.planner.plot import check_picture, draw
from nearkv.planner.report import comparison, document, place_name, rows, verdict
from nearkv.planner.sweep import Sweep, parse_sweep, points, run_sweep
from nearkv.planner.system import HOST_FILES, NEAR, PLAIN, POLICIES, Policy, System, Work, parse_cards, parse_drives
from nearkv.planner.trace import trace_document
from nearkv.planner.units import SIZE, human_time, parse, tokens

_ELEMENTS = {"fp16": 2, "int8": 1}
_SWEPT = {"output": "output_tokens"}  # what a sweep calls otherwise than its option


@dataclass(frozen=True)
class Question:
    """The options, checked."""

    system: System
    work: Work
    policy: Policy
    prices: Prices
    compare: bool
    sweep: Sweep | None
    plot: Path | None
    trace: Path | None
    as_json: bool


def command(
    given: typer.Context,
    model: Annotated[str, typer.Option(help="A known name (opt-66b, llama-3-70b, ...) or a folder with config.json.")],
    context: Annotated[str, typer.Option(help="Tokens cached per sequence: 4096, 32k.")] = "32k",
    batch: Annotated[int, typer.Option(help="Sequences.")] = 16,
    output_tokens: Annotated[int, typer.Option(help="New tokens that a request asks for.")] = 64,
    cards: Annotated[str, typer.Option(help="Count and description: 16xsmartssd, 2xMY.toml.")] = "16xsmartssd",
    gpu: Annotated[str, typer.Option(help="a100-40g, h100-80g, rtx4090, cpu, ... or a .toml file.")] = "a100-40g",
    host: Annotated[str, typer.Option(help="xeon-h3, gen4-server or a .toml file.")] = "xeon-h3",
    host_dram: Annotated[str | None, typer.Option(help="Instead of the host's own: 512 GB.")] = None,
    drives: Annotated[str, typer.Option(help="Plain drives of the host, for comparisons: 4xpm9a3.")] = "4xpm9a3",
    place: Annotated[str, typer.Option(help=f"How K and V are kept: {', '.join(POLICIES)}.")] = "nearkv",
    kv_format: Annotated[str, typer.Option(help="fp16; or int8, which no kernel here has yet.")] = "fp16",
    drafts: Annotated[int, typer.Option(help="Drafted tokens that each step verifies.")] = 0,
    acceptance: Annotated[float, typer.Option(help="How often a drafted token is taken to be right.")] = 0.6,
    x_cache: Annotated[
        bool, typer.Option("--x-cache", help="Let the model keep X for some heads (not built).")
    ] = False,
    hit_rate: Annotated[float | None, typer.Option(help="Share of K and V in card memory. Default: what fits.")] = None,
    years: Annotated[float, typer.Option(help="Years over which hardware is written off.")] = 3.0,
    kwh: Annotated[float, typer.Option(help="USD per kWh.")] = 0.12,
    compared: Annotated[bool, typer.Option("--compare", help="Beside all other ways to keep K and V.")] = False,
    sweep: Annotated[str | None, typer.Option(help="context=4k..128k, or batch=1..64:20 for 20 points.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the sweep: .png, .svg or .pdf.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write one step's time line, for ui.perfetto.dev.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> Run:
    """Say whether a model fits on cards, how fast it would be, what bounds it and what it costs."""

    def ask() -> int:
        if plot is not None and sweep is None:
            raise UserError("--plot draws a sweep; give --sweep too")
        if trace is not None and sweep is not None:
            raise UserError("--trace is of one plan; leave out --sweep")
        count, card = parse_cards(cards)
        plain, drive = parse_drives(drives)
        swept = None if sweep is None else parse_sweep(sweep)
        machine = load(host, Host)
        if host_dram is not None:
            machine = replace(machine, dram=parse(host_dram, SIZE, "host-dram"))
        if place not in POLICIES:
            raise UserError(f"place is {place!r}; known: {', '.join(POLICIES)}")
        _check_used(given, place, swept, compared=compared, drafts=drafts, cards=count)
        if kv_format not in _ELEMENTS:
            raise UserError(f"kv-format is {kv_format!r}; known: {', '.join(_ELEMENTS)}")
        policy = replace(POLICIES[place], element=_ELEMENTS[kv_format], hit=hit_rate)
        if x_cache:
            policy = replace(policy, alpha=None)
        cached, wanted = tokens(context, "context"), output_tokens
        question = Question(
            system=System(load(gpu, Gpu), machine, card, count, drive, plain),
            work=Work(find_model(model), cached, batch, wanted, drafts, acceptance),
            policy=policy,
            prices=Prices(years, kwh),
            compare=compared,
            sweep=swept,
            plot=plot,
            trace=trace,
            as_json=as_json,
        )
        return run(question)

    return Run(partial(ask), debug)


def _check_used(
    given: typer.Context, place: str, sweep: Sweep | None, *, compared: bool, drafts: int, cards: int
) -> None:
    """UserError for an option that was given and would change nothing."""
    options = {option.name: option.opts[0] for option in given.command.params if option.name}
    typed = {name for name in options if getattr(given.get_parameter_source(name), "name", "") == "COMMANDLINE"}
    where, over = POLICIES[place].place, "" if sweep is None else sweep.name
    if where != NEAR:
        for name in ("x_cache", "hit_rate", *(() if compared else ("cards",))):
            if name in typed:
                raise UserError(f"{options[name]} is about cards; --place {place} has none")
        if over == "cards" and not compared:
            raise UserError(f"--sweep cards is about cards; --place {place} has none")
    if "drives" in typed and where not in (HOST_FILES, PLAIN) and not compared:
        raise UserError(f"--drives are plain ones, which --place {place} does not use; give --compare too")
    if "acceptance" in typed and not drafts and over != "drafts":
        raise UserError("--acceptance is about drafts; give --drafts too")
    name = _SWEPT.get(over, over)
    if name in typed and (over != "cards" or cards > 1):  # a card without a count says only which
        how = "give --cards no count" if over == "cards" else f"leave out {options[name]}"
        raise UserError(f"--sweep goes over {over}: {how}")


def run(question: Question) -> int:
    """Computes and shows one plan, a comparison or a sweep. UserError for a question that has no answer."""
    new_clock()  # says it where simpy is missing
    if question.sweep is not None:
        return _sweep(question, question.sweep)
    q = question
    with output_file(q.trace, "trace file") as trace:
        wanted = trace is not None
        if q.compare:
            plans = compare(q.system, q.work, q.policy, q.prices, trace=wanted)
        else:
            plans = [make_plan(q.system, q.work, q.policy, q.prices, trace=wanted)]
        plan = plans[0]
        if trace is not None:
            trace.fill_text(json.dumps(trace_document(plan)) + "\n")
    if q.as_json:
        told = document(plan)
        if q.compare:
            told["compared"] = [document(other) for other in plans[1:]]
            told["verdict"] = verdict(plans)
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
        return 0
    console = Console(file=sys.stdout)
    console.print(two_columns(rows(plan)))
    if q.compare:
        console.print(columns(*comparison(plans)))
        sys.stdout.write(verdict(plans) + "\n")
    return 0


def _sweep(q: Question, sweep: Sweep) -> int:
    policies = [q.policy, *rivals(q.policy)] if q.compare else [q.policy]
    where = points(sweep, q.system, q.work)
    if q.plot is not None:
        check_picture(q.plot)
    with output_file(q.plot, "plot file") as picture:
        plans = run_sweep(where, policies, q.prices)
        if picture is not None:
            picture.fill(partial(draw, sweep, plans))
    if q.as_json:
        told = [
            {sweep.name: value, "plans": [document(plan) for plan in row]}
            for value, row in zip(sweep.values, plans, strict=True)
        ]
        sys.stdout.write(json.dumps({"sweep": sweep.name, "points": told}, indent=2) + "\n")
        return 0
    titles = [sweep.name, "K and V", "fits", "tokens/s", "step", "first token", "bound by"]
    lines = [
        [str(value), place_name(plan), "yes" if plan.fits else "no", *_speed(plan)]
        for value, row in zip(sweep.values, plans, strict=True)
        for plan in row
    ]
    Console(file=sys.stdout).print(columns(titles, lines))
    return 0


def _speed(plan: Plan) -> list[str]:
    first = human_time(plan.prefill.seconds)
    bound = plan.bottleneck if plan.policy.place != NEAR or plan.fits else f"{plan.bottleneck} (does not fit)"
    return [f"{plan.tokens_per_s:.3g}", human_time(plan.step.seconds), first, bound]
