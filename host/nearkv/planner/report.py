# SPDX-License-Identifier: Apache-2.0
"""A plan as table rows for people and as a JSON document for programs, inputs and formula included. Prints nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from nearkv.planner.hardware import Checked, RowTable, SizeTable
from nearkv.planner.memory import plain_drives
from nearkv.planner.plan import Plan, notes
from nearkv.planner.system import GPU_ONLY, HOST_DRAM, HOST_DRAM_GPU, HOST_FILES, NEAR, PLAIN
from nearkv.planner.units import COMPUTE, RATE, SIZE, TIME, human_rate, human_size, human_time
from nearkv.report import Row


def rows(plan: Plan) -> list[Row]:
    """The table, top to bottom."""
    work, step = plan.work, plan.step
    table = [Row("fits", "yes" if plan.fits else "NO: the figures below are what it would be if it did")]
    table += [Row("what would help", sentence) for sentence in plan.advice]
    table += [Row("note", sentence) for sentence in notes(plan.system, work, plan.policy)]
    table += [
        Row(
            "decode",
            f"{plan.tokens_per_s:.3g} tokens/s ({human_time(step.seconds)} per step of {work.batch} sequences)",
        ),
        Row("time to first token", f"{human_time(plan.prefill.seconds)}, bound by {plan.prefill.bottleneck}"),
        Row("requests", f"{plan.request_tokens_per_s:.3g} new tokens/s with prompts and {work.output} tokens each"),
        Row("bottleneck", plan.bottleneck),
    ]
    if work.drafts:
        table.append(Row("drafts", f"{work.drafts} per step, assumed right with {work.acceptance:g}: "
                                   f"{work.tokens_per_step:.2f} tokens per step"))  # fmt: skip
    parts = sorted(plan.components.items(), key=lambda part: -part[1])
    table += [Row(f"step: {part}", f"{human_time(s)}, busy {s / step.seconds:.0%}") for part, s in parts if s > 0]
    table += [Row("K and V", work.model.kv_formula(work.context, work.batch, plan.policy.element))]
    if plan.alpha:
        table.append(
            Row("X-cache", f"{plan.alpha:g} of heads and sequences; stored in all {human_size(plan.kv_nbytes)}")
        )
    if plan.kv_per_drive is not None:
        table.append(Row("K and V per drive", human_size(plan.kv_per_drive)))
    if plan.places.resident:
        table.append(Row("in card memory", f"{plan.places.resident:.1%} of K and V"))
    table += [
        Row("over the link", f"{human_size(plan.link_nbytes)} per step"),
        Row("from the drives", f"{human_size(plan.media_nbytes)} per step"),
        Row(
            "energy",
            f"{plan.joules_per_token:.3g} J per token ({plan.watts:.0f} W)" + _lacks("power", plan.without_power),
        ),
        Row("writes", _wear(plan)),
        Row(
            "cost",
            f"{plan.usd:,.0f} USD of hardware; {plan.usd_per_million:,.0f} USD per million new tokens, "
            "prompts included" + _lacks("price", plan.without_price),
        ),
    ]
    table += [Row(f"input: {name}", value) for name, value in inputs(plan)]
    return table


def comparison(plans: Sequence[Plan]) -> tuple[list[str], list[list[str]]]:
    """Titles and lines: one way to keep K and V each."""
    titles = ["K and V", "fits", "tokens/s", "step", "bound by", "J/token", "USD", "USD per M tokens"]
    lines = [
        [
            place_name(plan),
            "yes" if plan.fits else "no",
            f"{plan.tokens_per_s:.3g}" if plan.fits else f"({plan.tokens_per_s:.3g})",
            human_time(plan.step.seconds),
            plan.bottleneck,
            "not known" if plan.without_power else f"{plan.joules_per_token:.3g}",
            *(["not known"] * 2 if plan.without_price else [f"{plan.usd:,.0f}", f"{plan.usd_per_million:,.0f}"]),
        ]
        for plan in plans
    ]
    return titles, lines


def verdict(plans: Sequence[Plan]) -> str:
    """Whether cards pay, in plain words: those of the first plan of cards."""
    first = next(plan for plan in plans if plan.policy.place == NEAR)
    others = [plan for plan in plans if plan.fits and plan.policy.place != NEAR]
    if not first.fits:
        return "It does not fit as asked." if first is plans[0] else f"With {place_name(first)} it does not fit."
    if not others:
        return "Nothing else here fits: near-data is the only way."
    fastest = max(others, key=lambda plan: plan.tokens_per_s)
    unknown = sorted({name for plan in (first, *others) for name in plan.without_price})
    cheapest = min(others, key=lambda plan: plan.usd_per_million)
    speed = first.tokens_per_s / fastest.tokens_per_s
    told = f"{speed:.2f} times the speed of {place_name(fastest)}"
    if first is not plans[0]:
        told = f"{place_name(first)} have {told}"
    if speed < 1:
        told = f"Near-data does not pay: {told}, which also fits"
    if unknown:
        return f"{told}; what a token costs is not compared, as no price is given for {', '.join(unknown)}."
    money = first.usd_per_million / cheapest.usd_per_million
    word = "costs" if money > 1 else "costs only"
    return f"{told}; a token {word} {money:.2f} times what it costs with {place_name(cheapest)}."


def place_name(plan: Plan) -> str:
    """Where K and V are and who attends, for a table."""
    if plan.system.gpu.in_host_memory and plan.policy.place in (GPU_ONLY, HOST_DRAM_GPU):
        return "host memory, no GPU" if plan.policy.place == GPU_ONLY else "host memory, no GPU, in pieces"
    names = {
        HOST_DRAM: "host DRAM, CPU attends (FlexGen)",
        HOST_DRAM_GPU: "host DRAM, through the GPU",
        HOST_FILES: "host drives, CPU attends (FlexGen)",
        PLAIN: "host drives, through the GPU",
        GPU_ONLY: "GPU memory",
    }
    return names.get(plan.policy.place, f"cards ({plan.policy.name})")


def document(plan: Plan) -> dict[str, Any]:
    """The JSON document, units in the names of the keys."""
    work, step = plan.work, plan.step
    return {
        "policy": plan.policy.name,
        "fits": plan.fits,
        "needs": [
            {"place": n.place, "used_bytes": n.used, "room_bytes": n.room, "fits": n.fits} for n in plan.places.needs
        ],
        "advice": list(plan.advice),
        "notes": notes(plan.system, work, plan.policy),
        "tokens_per_s": plan.tokens_per_s,
        "request_tokens_per_s": plan.request_tokens_per_s,
        "time_to_first_token_s": plan.prefill.seconds,
        "prefill_parts_s": dict(plan.prefill.parts),
        "step_s": step.seconds,
        "layer_s": step.layer_s,
        "components_s": dict(plan.components),
        "bottleneck": plan.bottleneck,
        "x_share": plan.alpha,
        "resident_share": plan.places.resident,
        "kv_bytes_per_token": work.model.kv_nbytes_per_token(plan.policy.element),
        "kv_formula": work.model.kv_formula(work.context, work.batch, plan.policy.element),
        "stored_bytes": plan.kv_nbytes,
        "kv_bytes_per_drive": plan.kv_per_drive,
        "link_bytes_per_step": plan.link_nbytes,
        "media_bytes_per_step": plan.media_nbytes,
        "watts": plan.watts,
        "joules_per_token": plan.joules_per_token,
        "written_bytes_per_drive_and_day": plan.written_per_day,
        "drive_life_years": plan.life_years,
        "without_power": list(plan.without_power),
        "without_price": list(plan.without_price),
        "usd": plan.usd,
        "usd_per_million_tokens": plan.usd_per_million,
        "inputs": dict(inputs(plan)),
    }


def inputs(plan: Plan) -> list[tuple[str, str]]:
    """Everything that the figures rest on."""
    system, model, work = plan.system, plan.work.model, plan.work
    shape = ", ".join(f"{f.name} {getattr(model, f.name)}" for f in fields(model) if f.name != "name")
    asked = f"context {work.context}, batch {work.batch}, output {work.output}, drafts {work.drafts}"
    asked += f", each taken to be right with probability {work.acceptance:g}" if work.drafts else ""
    asked += "" if plan.policy.hit is None else f", in card memory {plan.policy.hit:g} of K and V"
    prices = f"hardware written off over {plan.prices.years:g} years, a kWh at {plan.prices.kwh:g} USD"
    found = [
        ("work", asked),
        ("prices", prices),
        (f"model {model.name}", shape),
        (f"GPU {system.gpu.name}", figures(system.gpu)),
    ]
    found.append((f"host {system.host.name}", figures(system.host)))
    if plan.policy.place == NEAR:
        found.append((f"{system.cards} cards {system.card.name}", figures(system.card)))
        found.append((f"drive {system.card.drive.name}", figures(system.card.drive)))
    elif plan.media_nbytes:
        drive, count = plain_drives(system, plan.policy)
        found.append((f"{count} drives {drive.name}", figures(drive)))
    return found


def figures(part: Checked) -> str:
    """A description's figures in readable units."""
    told = []
    for entry in fields(part):  # type: ignore[arg-type]
        limits, value = entry.metadata.get("limits"), getattr(part, entry.name)
        if isinstance(value, (SizeTable, RowTable)):
            told += _table(entry.name, value)
        if limits is None or (entry.name in ("kernel_rate", "slots") and not value):  # 0 is no figure there
            continue
        human = {id(RATE): human_rate, id(SIZE): human_size, id(TIME): human_time}.get(id(limits.kind))
        if limits.kind is COMPUTE:
            told.append(f"{entry.name} {value / 1e12:g} TFLOP/s")
        else:
            told.append(f"{entry.name} {human(value) if human else limits.text(value)}")
    return ", ".join(told)


def _table(name: str, table: SizeTable | RowTable) -> list[str]:
    """A line for each list that holds something."""
    told = []
    for entry in fields(table):
        pairs = getattr(table, entry.name)
        first = human_size if isinstance(table, SizeTable) else "{:g}".format
        if pairs:
            told.append(f"{name}.{entry.name} " + "; ".join(f"{first(at)} {human_rate(rate)}" for at, rate in pairs))
    return told


def _lacks(what: str, names: Sequence[str]) -> str:
    """Behind a sum: what is missing in it."""
    return f"; without {', '.join(names)}, whose {what} is not given" if names else ""


def _wear(plan: Plan) -> str:
    if plan.written_per_day is None:
        return "none to drives"
    life = "rating not known" if plan.life_years is None else f"rating used up in {plan.life_years:.2g} years"
    return f"{human_size(plan.written_per_day)} per drive and day without a pause; {life}"
