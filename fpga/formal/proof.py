# SPDX-License-Identifier: Apache-2.0
"""What a proof is, what it may come to, and a fault that it must find. Runs nothing.

Four methods:

* `induction`: the first cycles from power-up hold, and after cycles that hold comes one that holds, from any state
  of the registers: true for every number of cycles.
* `pdr`: property directed reachability from power-up, which finds its own invariant: true for every number of cycles.
* `window`: bounded model checking of a few cycles from *any* state of the registers: for a pipeline without feedback
  true for every number of cycles.
* `exhaustive`: evaluation of the netlist (exhaustive.py).

Covers are searched for by bounded model checking from power-up. A time limit or an unclear answer is never a pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Method = Literal["induction", "pdr", "window", "exhaustive"]
Verdict = Literal["proved", "failed", "unknown", "error"]


@dataclass(frozen=True)
class Mutation:
    """A planted fault: `old` occurs exactly once in `path` (under fpga/rtl) and becomes `new`."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Proof:
    """A module with properties around it, and how it is proven."""

    name: str
    # file `properties/TOP.v`, module of that name
    top: str
    # files under fpga/rtl that it needs
    sources: tuple[str, ...]
    claim: str
    method: Method = "pdr"
    # induction: cycles that are looked at together, the last of them proven from the others; window: how many
    depth: int = 2
    # how far covers, and counterexamples of an induction that fails, are searched
    cycles: int = 20
    parameters: Mapping[str, int] = field(default_factory=dict)
    # wire of the properties: register inside, both after flattening
    probes: Mapping[str, str] = field(default_factory=dict)
    # register inside: wire of the properties that takes its place
    replaced: Mapping[str, str] = field(default_factory=dict)
    # files under fpga/rtl whose modules are cut: their outputs may do anything
    cut: tuple[str, ...] = ()
    mutations: tuple[Mutation, ...] = ()
    # part of the short set
    short: bool = True
    # seconds of CPU
    limit_s: int = 120


@dataclass(frozen=True)
class Outcome:
    """What came of it: which assertions failed or which covers were not reached, and the cost."""

    verdict: Verdict
    detail: str
    cpu_s: float
    trace: Path | None = None
