# SPDX-License-Identifier: Apache-2.0
"""What host, link, drive and kernel did when: a recorder, the trace file that Perfetto shows, and overlap shares.

A recorder is made by who wants one and handed down; without it nothing is timed. Pure but for the recording.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

HOST, LINK, READ, KERNEL = "host", "link", "P2P read", "kernel"


@dataclass(frozen=True)
class Interval:
    """`what` on card `card` (-1: the host) from `begin_s` to `end_s`; `lane` tells apart what runs side by side."""

    card: int
    what: str
    begin_s: float
    end_s: float
    lane: int = 0


class Timeline:
    """Collects intervals from any thread. Times are those of `time.monotonic`."""

    def __init__(self) -> None:
        self.cards: list[str] = []
        self._intervals: list[Interval] = []

    @staticmethod
    def clock() -> float:
        return time.monotonic()

    @property
    def intervals(self) -> tuple[Interval, ...]:
        return tuple(self._intervals)

    def add_card(self, name: str) -> int:
        """Number of a card that will tell what it does."""
        self.cards.append(name)
        return len(self.cards) - 1

    def add(self, card: int, what: str, begin_s: float, end_s: float, lane: int = 0) -> None:
        self._intervals.append(Interval(card, what, begin_s, end_s, lane))


Span = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Span]:
    """Spans in which at least one of the intervals is, ascending, without overlap."""
    spans: list[Span] = []
    for begin, end in sorted((i.begin_s, i.end_s) for i in intervals):
        if spans and begin <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((begin, end))
    return spans


def length(spans: Sequence[Span]) -> float:
    """Seconds in all; the spans must not overlap (`union`)."""
    return sum(end - begin for begin, end in spans)


def common(a: Sequence[Span], b: Sequence[Span]) -> float:
    """Seconds that both have; each is a result of `union`."""
    total, i, j = 0.0, 0, 0
    while i < len(a) and j < len(b):
        total += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def overlap_share(intervals: Sequence[Interval], card: int) -> float | None:
    """How much of the shorter of the two, reading pages and everything else (kernel, link, host), lies within the
    other: 1 when the one is hidden behind the other wholly, 0 when they take turns. None where one is missing."""
    reads = union(i for i in intervals if i.card == card and i.what == READ)
    work = union(i for i in intervals if i.what == HOST or (i.card == card and i.what in (KERNEL, LINK)))
    least = min(length(reads), length(work))
    return common(reads, work) / least if least > 0 else None


def chrome_trace(timeline: Timeline) -> dict[str, Any]:
    """A document in the Trace Event format, for ui.perfetto.dev: a process per card and one for the host."""
    intervals = timeline.intervals
    origin = min((i.begin_s for i in intervals), default=0.0)
    tracks = sorted({(i.card, i.what, i.lane) for i in intervals})
    events: list[dict[str, Any]] = [
        _name("process_name", process, 0, name) for process, name in enumerate(["host", *timeline.cards])
    ]
    threads = {track: number for number, track in enumerate(tracks, 1)}
    for (card, what, lane), number in threads.items():
        lanes = {track[2] for track in tracks if track[:2] == (card, what)}
        events.append(_name("thread_name", card + 1, number, f"{what} {lane}" if len(lanes) > 1 else what))
    for i in intervals:
        events.append(
            {
                "name": i.what,
                "ph": "X",
                "ts": (i.begin_s - origin) * 1e6,
                "dur": (i.end_s - i.begin_s) * 1e6,
                "pid": i.card + 1,
                "tid": threads[i.card, i.what, i.lane],
            }
        )
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
