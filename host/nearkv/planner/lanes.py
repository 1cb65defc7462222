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


@dataclass(frozen=True)
class Span:
    """`what` on a lane from `begin` to `end`, seconds. `flow`: which of those that share the lane."""

    lane: str
    what: str
    begin: float
    end: float
    flow: str = ""


@dataclass
class Lanes:
    """All lanes of one simulation. `spans` is None where nobody wants a trace."""

    env: Any
    spans: list[Span] | None = None
    made: dict[tuple[str, str], Lane] = field(default_factory=dict)

    def lane(self, name: str, flow: str = "") -> Lane:
        """A lane, or one flow of several that share it. Links and drives take turns among flows in small pieces, so one
        does not stand behind another's large transfer; that all of them find time is the simulation's bound."""
        if (name, flow) not in self.made:
            self.made[name, flow] = Lane(self, name, flow)
        return self.made[name, flow]

    def work_s(self) -> dict[str, float]:
        """Seconds of work that each lane was given so far, all flows."""
        total: dict[str, float] = {}
        for lane in self.made.values():
            total[lane.name] = total.get(lane.name, 0.0) + lane.work_s
        return total

    def ahead(self) -> list[float]:
        """How far in time those flows that something waits for are given away."""
        return [lane.free_at - self.env.now for lane in self.made.values() if lane.awaited]


class Lane:
    """Serves in the order of arrival, which no duration changes where one process, or one after another, gives it
    work. `work_s`: seconds of it so far. `free_at`: when all is done."""

    def __init__(self, lanes: Lanes, name: str, flow: str) -> None:
        self._lanes, self.name, self._flow = lanes, name, flow
        self.free_at = self.work_s = 0.0
        self.awaited = False

    def use(self, seconds: float, what: str) -> Any:
        """An event: `seconds` of this lane are over."""
        self.awaited = True
        return self._lanes.env.timeout(self.give(seconds, what) - self._lanes.env.now)

    def give(self, seconds: float, what: str) -> float:
        """As `use`, for what nobody waits for: when it is over."""
        begin = max(self._lanes.env.now, self.free_at)
        self.free_at = begin + max(0.0, seconds)
        self.work_s += max(0.0, seconds)
        if self.free_at > begin and self._lanes.spans is not None:
            self._lanes.spans.append(Span(self.name, what, begin, self.free_at, self._flow))
        return self.free_at


class Moments:
    """Events by number, made when somebody asks for one."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._made: dict[int, Any] = {}

    def __getitem__(self, number: int) -> Any:
        if number not in self._made:
            self._made[number] = self._env.event()
        return self._made[number]
