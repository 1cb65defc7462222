# SPDX-License-Identifier: Apache-2.0
"""A simulated step as a document in the Trace Event format, for ui.perfetto.dev. It simulates nothing."""

from __future__ import annotations

from typing import Any

from nearkv.planner.plan import Plan

_SYSTEM, _CARDS = 0, 1


def trace_document(plan: Plan) -> dict[str, Any]:
    """Lanes of the host in one process, those of cards in another, each flow of a lane that several share by itself;
    times from the step's begin."""
    spans = plan.step.spans
    origin = min((span.begin for span in spans), default=0.0)
    tracks = {span: f"{span.lane}: {span.flow}" if span.flow else span.lane for span in spans}
    lanes = sorted(set(tracks.values()))
    process = {
        lane: _CARDS if lane.startswith(("drive of", "kernel of", "card link of")) else _SYSTEM for lane in lanes
    }
    number = {lane: index for index, lane in enumerate(lanes, 1)}
    events: list[dict[str, Any]] = [
        _name("process_name", _SYSTEM, 0, "host"),
        _name("process_name", _CARDS, 0, f"{plan.system.cards} x {plan.system.card.name}"),
    ]
    events += [_name("thread_name", process[lane], number[lane], lane) for lane in lanes]
    for span, lane in tracks.items():
        times = {"ts": (span.begin - origin) * 1e6, "dur": (span.end - span.begin) * 1e6}
        events.append({"name": span.what, "ph": "X", **times, "pid": process[lane], "tid": number[lane]})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
