# SPDX-License-Identifier: Apache-2.0
"""Spills behind the decode steps: started at one call, taken over at a later one. Writes nothing itself.

A flight holds a copy of the rows; the sequence keeps them, live, until every card has the pages on flash, in its memory
and (with a name) in its index. The change from tail rows to extents happens between calls, on the caller's thread, so
no call sees half of it. One flight per sequence. A flight that failed is reported by the next call that adds rows, and
from then on spills of that sequence are waited for until one works.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TypedDict

from nearkv_driver.errors import DriverError

from nearkv import spill
from nearkv.card_store import CardStore
from nearkv.layout import ModelLayout
from nearkv.pages import whole_units
from nearkv.requests import Requests
from nearkv.sequence import Part, SequenceState
from nearkv.spill_part import PartSpill
from nearkv.tail import WriteBuffer, live_rows_max
from nearkv.writer import Task, Writer


@dataclass
class SpillCounters:
    """`waits` are calls that stood still because the drive was behind, `wait_s` for how long in all."""

    spills: int = 0
    failed: int = 0
    waits: int = 0
    wait_s: float = 0.0


class SpillFigures(TypedDict):
    """Of `StoreStats`: counts since the store was opened, and seconds that calls have waited."""

    spills: int
    spills_failed: int
    spills_in_flight: int
    spill_waits: int
    spill_wait_s: float


@dataclass(eq=False)
class _Flight:
    """`ends`: for each layer that takes part, the token up to which it is on flash afterwards; `stored`: for all."""

    state: SequenceState
    ends: dict[int, int]
    parts: list[PartSpill]
    stored: int
    tasks: list[Task] = field(default_factory=list)
    left: int = 0
    failed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def done(self) -> bool:
        return all(task.done for task in self.tasks)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)


def new_spiller(
    layout: ModelLayout,
    buffer: WriteBuffer,
    cards: Sequence[CardStore],
    writers: Sequence[Writer],
    resources: ExitStack,
) -> Spiller:
    """Of a store; `resources` ends what it starts, and the writers."""
    requests = [resources.enter_context(closing(Requests(f"requests of {card.device.url}"))) for card in cards]
    for writer in writers:
        resources.callback(writer.close)
    return Spiller(layout, buffer, writers, requests)


class Spiller:
    """`writers` and `requests` by card number. Used by the thread that owns the cards."""

    def __init__(
        self,
        layout: ModelLayout,
        buffer: WriteBuffer,
        writers: Sequence[Writer],
        requests: Sequence[Requests],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._layout, self._buffer, self._clock = layout, buffer, clock
        self._writers, self._requests = tuple(writers), tuple(requests)
        self._flights: dict[int, _Flight] = {}
        self._failed: set[int] = set()
        self.counters = SpillCounters()

    def before_rows(self, state: SequenceState, layer: int) -> None:
        """Called before an attend call adds at most 64 rows to a layer: starts what is due, and makes sure of room.

        StorageError or another DriverError when a spill failed: then no row of the call has been touched, and all that
        are stored are still in the tail.
        """
        self.poll(state)
        limit = live_rows_max(self._layout, self._buffer.spill_units)
        due = self._buffer.spill_units * self._layout.unit_tokens
        while (live := state.tail.live(layer)) >= due:
            flight = self._flights.get(state.id)
            if flight is not None:
                if live <= limit:
                    return
                self._wait(flight)
            elif state.complete:
                flight = self._start(state)
                if state.id in self._failed:
                    self._wait(flight)
            elif live > limit:
                spill.spill(state, layer, self._layout)
            else:
                return

    def poll(self, state: SequenceState) -> None:
        """Takes over the sequence's flight if it has ended; raises what it failed with."""
        flight = self._flights.get(state.id)
        if flight is not None and flight.done:
            self._end(flight)

    def drain(self, state: SequenceState) -> None:
        """The sequence has no flight when this returns or raises: what it failed with, its rows still in the tail."""
        flight = self._flights.get(state.id)
        if flight is not None:
            self._end(flight)

    def settle(self, state: SequenceState) -> None:
        """As `drain`, for calls that write the rows again themselves or do not need them written."""
        try:
            self.drain(state)
        except DriverError:
            if state.id in self._flights:  # on flash, but the card did not take it over
                raise

    def abandon(self, state: SequenceState) -> None:
        """The sequence goes, whatever becomes of its flight; its pages may be used again when this returns."""
        self._failed.discard(state.id)
        flight = self._flights.get(state.id)
        if flight is not None:
            self._outcome(flight)  # Ctrl-C here leaves the flight, for whoever waits for it next
            del self._flights[state.id]
            self._leave(flight)

    def figures(self) -> SpillFigures:
        """The counters as StoreStats names them."""
        c = self.counters
        return {
            "spills": c.spills,
            "spills_failed": c.failed,
            "spills_in_flight": len(self._flights),
            "spill_waits": c.waits,
            "spill_wait_s": c.wait_s,
        }

    def _start(self, state: SequenceState) -> _Flight:
        """Copies all whole units of the tail and hands them to the writers. An error here has changed nothing."""
        state.before_durable()
        unit, tail = self._layout.unit_tokens, state.tail
        layers = range(self._layout.layers)
        ends = {i: whole_units(tail.end[i], unit) for i in layers if tail.live(i) >= unit}
        spill.reserve([(state, max(ends.values()))])
        rows = [(i, tail.stored[i], tail.read(i, tail.stored[i], end)) for i, end in ends.items()]
        parts: list[PartSpill] = []
        try:
            for part in state.parts:
                work = [(i, first, part.rows(some)) for i, first, some in rows]
                parts.append(PartSpill(part.card, part.data, work))
        except BaseException:
            for made in parts:
                made.release()
            raise
        stored = min(ends.get(i, already) for i, already in enumerate(tail.stored))
        flight = _Flight(state, ends, parts, stored, left=len(parts))
        self._buffer.add(flight.nbytes)
        self._flights[state.id] = flight
        for part, share in zip(state.parts, parts, strict=True):
            flight.tasks.append(self._writers[part.number].give(self._work(flight, part, share)))
        return flight

    def _work(self, flight: _Flight, part: Part, share: PartSpill) -> Callable[[], None]:
        def work() -> None:
            try:
                if not flight.failed:
                    share.run(self._requests[part.number])
            except BaseException:
                flight.failed = True
                raise
            finally:
                with flight.lock:
                    flight.left -= 1
                    last = flight.left == 0
            # Whoever is last enters the spill into all indexes: no card's index is ahead of another card's pages.
            if last and not flight.failed:
                spill.commit([(flight.state, flight.stored)])

        return work

    def _wait(self, flight: _Flight) -> None:
        """Stands still until the flight has ended: the drive is slower than decode."""
        self.counters.waits += not flight.done
        began = self._clock()
        try:
            self._end(flight)
        finally:
            self.counters.wait_s += self._clock() - began

    def _outcome(self, flight: _Flight) -> list[Exception]:
        """What the writers raised; none of them is at work on the flight any more."""
        errors: list[Exception] = []
        for task in flight.tasks:
            try:
                task.wait()
            except Exception as error:
                errors.append(error)
        if flight.left and not errors:  # the call was broken off while the work was handed out
            errors.append(DriverError("a spill was interrupted before it reached every card"))
        return errors

    def _leave(self, flight: _Flight) -> None:
        self._buffer.add(-flight.nbytes)
        for part in flight.parts:
            part.release()

    def _end(self, flight: _Flight) -> None:
        errors = self._outcome(flight)
        state = flight.state
        if not errors:
            # A failure here (the card is gone) leaves the flight: it can be taken over again.
            for part in flight.parts:
                part.deliver()
        del self._flights[state.id]
        self._leave(flight)
        if errors:
            self.counters.failed += 1
            self._failed.add(state.id)
            for other in errors[1:]:
                errors[0].add_note(f"also: {other}")
            raise errors[0]
        self.counters.spills += 1
        self._failed.discard(state.id)
        for part in flight.parts:
            part.card.payload_written_nbytes += part.payload_nbytes
        for layer, end in flight.ends.items():
            state.tail.settle(layer, end, state.tail.end[layer])
            state.set_stored(layer, end)
