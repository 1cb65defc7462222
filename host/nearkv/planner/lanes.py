# SPDX-License-Identifier: Apache-2.0
"""The clock of a simulated step: lanes that serve one thing at a time, how long each was busy, and when.

Thin over simpy, which is imported where a simulation begins: programs that plan nothing do not need it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from nearkv.errors import UserError

Steps = Generator[Any, Any, None]


def new_clock() -> Any:
    """A simpy environment. UserError where simpy is missing."""
    try:
        import simpy
    except ModuleNotFoundError as error:
        raise UserError("the planner needs simpy, which is not installed: pip install 'nearkv[plan]'") from error
    return simpy.Environment()


@dataclass
class Span:
    """`what` on a lane from `begin` to `end`, seconds."""

    lane: str
    what: str
    begin: float
    end: float


@dataclass
class Lanes:
    """All lanes of one simulation. `spans` is None where nobody wants a trace."""

    env: Any
    spans: list[Span] | None = None
    made: dict[str, Lane] = field(default_factory=dict)

    def lane(self, name: str) -> Lane:
        if name not in self.made:
            self.made[name] = Lane(self, name)
        return self.made[name]


class Lane:
    """Serves in the order of arrival."""

    def __init__(self, lanes: Lanes, name: str) -> None:
        self._lanes, self.name = lanes, name
        self._free_at = 0.0
        self.busy: list[tuple[float, float]] = []

    def use(self, seconds: float, what: str) -> Any:
        """An event: `seconds` of this lane are over. Arrivals are served in the order of their calls."""
        env = self._lanes.env
        begin = max(env.now, self._free_at)
        end = self._free_at = begin + max(0.0, seconds)
        if end > begin:
            self.busy.append((begin, end))
            if self._lanes.spans is not None:
                self._lanes.spans.append(Span(self.name, what, begin, end))
        return env.timeout(end - env.now)

    def busy_s(self, begin: float, end: float) -> float:
        """Seconds within [begin, end) in which it served."""
        return sum(max(0.0, min(b, end) - max(a, begin)) for a, b in self.busy)
