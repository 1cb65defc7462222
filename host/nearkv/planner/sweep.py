# SPDX-License-Identifier: Apache-2.0
"""One parameter over a range: the points, and a plan for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nearkv.errors import UserError
from nearkv.planner.plan import Plan, Prices, make_plan
from nearkv.planner.system import RANGES, Policy, System, Work, check_count
from nearkv.planner.units import tokens

POINTS_MAX = 1000


@dataclass(frozen=True)
class Sweep:
    """Values of `name`, ascending."""

    name: str
    values: tuple[int, ...]


def parse_sweep(text: str) -> Sweep:
    """`context=4k..128k` by doubling, or `context=4k..128k:100` in so many even ratios; in even steps
    from 0, where it may begin there."""
    match = re.fullmatch(r"\s*(\w+)\s*=\s*([0-9]+[kKmM]?)\s*\.\.\s*([0-9]+[kKmM]?)\s*(?::\s*([0-9]{1,6}))?\s*", text)
    if match is None:
        raise UserError(f"sweep is {text!r}; a range such as context=4k..128k or batch=1..64:20 is expected")
    name, points = match[1], match[4]
    if name not in RANGES:
        raise UserError(f"sweep over {name!r}; known: {', '.join(RANGES)}")
    low, high = tokens(match[2], f"sweep {name}"), tokens(match[3], f"sweep {name}")
    least = RANGES[name][0]
    if not least <= low <= high:
        raise UserError(
            f"sweep {name} from {low} to {high}; it must begin at {least} or above and not end before it begins"
        )
    if points is None:
        values, at = [], low
        while at < high:
            values.append(at)
            at = max(1, 2 * at)
        return Sweep(name, (*values, high))
    count = int(points)
    if not 2 <= count <= POINTS_MAX:
        raise UserError(f"sweep of {count} points; 2 to {POINTS_MAX} are allowed")
    if low == 0:  # no ratio leads away from it
        return Sweep(name, tuple(sorted({round(high * i / (count - 1)) for i in range(count)})))
    ratio = (high / low) ** (1 / (count - 1))
    return Sweep(name, tuple(sorted({round(low * ratio**i) for i in range(count)})))


def points(sweep: Sweep, system: System, work: Work) -> list[tuple[System, Work]]:
    """What to plan for at each value. UserError for one that is out of range."""
    for value in sweep.values:
        check_count(sweep.name, value)
    if sweep.name == "cards":
        return [(replace(system, cards=value), work) for value in sweep.values]
    return [(system, replace(work, **{sweep.name: value})) for value in sweep.values]  # type: ignore[arg-type]


def run_sweep(
    points: Sequence[tuple[System, Work]], policies: Sequence[Policy], prices: Prices | None = None
) -> list[list[Plan]]:
    """For each point the plans of all policies."""
    return [[make_plan(system, work, policy, prices) for policy in policies] for system, work in points]
