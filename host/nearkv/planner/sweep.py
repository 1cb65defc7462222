# SPDX-License-Identifier: Apache-2.0
"""One parameter over a range: the points, and a plan for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nearkv.errors import UserError
from nearkv.planner.plan import Plan, Prices, make_plan
from nearkv.planner.system import COUNT_MAX, Policy, System, Work
from nearkv.planner.units import tokens

NAMES = ("context", "batch", "cards", "drafts", "output")
POINTS_MAX = 1000


@dataclass(frozen=True)
class Sweep:
    """Values of `name`, ascending."""

    name: str
    values: tuple[int, ...]


def parse_sweep(text: str) -> Sweep:
    """`context=4k..128k` by doubling, or `context=4k..128k:100` in so many even ratios."""
    match = re.fullmatch(r"\s*(\w+)\s*=\s*([0-9]+[kKmM]?)\s*\.\.\s*([0-9]+[kKmM]?)\s*(?::\s*([0-9]{1,6}))?\s*", text)
    if match is None:
        raise UserError(f"sweep is {text!r}; a range such as context=4k..128k or batch=1..64:20 is expected")
    name, points = match[1], match[4]
    if name not in NAMES:
        raise UserError(f"sweep over {name!r}; known: {', '.join(NAMES)}")
    low, high = tokens(match[2], f"sweep {name}"), tokens(match[3], f"sweep {name}")
    if not 1 <= low <= high:
        raise UserError(f"sweep {name} from {low} to {high}; it must begin at 1 or above and not end before it begins")
    if points is None:
        values, at = [], low
        while at < high:
            values.append(at)
            at *= 2
        return Sweep(name, (*values, high))
    count = int(points)
    if not 2 <= count <= POINTS_MAX:
        raise UserError(f"sweep of {count} points; 2 to {POINTS_MAX} are allowed")
    ratio = (high / low) ** (1 / (count - 1))
    return Sweep(name, tuple(sorted({round(low * ratio**i) for i in range(count)})))


def points(sweep: Sweep, system: System, work: Work) -> list[tuple[System, Work]]:
    """What to plan for at each value. UserError for one that is out of range."""
    found = []
    for value in sweep.values:
        if sweep.name != "cards":
            found.append((system, replace(work, **{sweep.name: value})))  # type: ignore[arg-type]
        elif value > COUNT_MAX:
            raise UserError(f"sweep: cards = {value}; at most {COUNT_MAX} are allowed")
        else:
            found.append((replace(system, cards=value), work))
    return found


def run_sweep(
    points: Sequence[tuple[System, Work]], policies: Sequence[Policy], prices: Prices | None = None
) -> list[list[Plan]]:
    """For each point the plans of all policies."""
    return [[make_plan(system, work, policy, prices) for policy in policies] for system, work in points]
