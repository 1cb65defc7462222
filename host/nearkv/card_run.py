# SPDX-License-Identifier: Apache-2.0
"""One card's part of an attend call: wave after wave, in the card's own thread. Merges nothing.

While the kernel works on one list, the next is prepared if its pages are there; else the kernel is waited for, and then
the pages. The kernel never waits for a wave but its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from nearkv_driver.commands import Result
from nearkv_driver.device import Prepared, Ticket
from nearkv_driver.errors import DriverError, JobError
from nearkv_driver.regmap import JOBS_MAX

from nearkv.card_store import CardStore
from nearkv.fetches import Wave
from nearkv.jobs import Attention, Entry, entries, states_nbytes
from nearkv.query import Source
from nearkv.wave_reader import Staged
from nearkv.waves import Step

Done = list[tuple[Entry, Result]]


class Stopped(Exception):
    """Another card failed, so this one did not go on."""


@dataclass(frozen=True)
class Work:
    """Sources of one card and the steps in which what they lack is read; `guesses` may be read behind these."""

    sources: Sequence[Source]
    steps: Sequence[Step]
    guesses: Sequence[Wave] = ()


@dataclass
class Stop:
    """Shared by the cards of a call. `failed`: one of them has; `interrupted`: nobody wants the result any more."""

    failed: bool = False
    interrupted: bool = False

    @property
    def wanted(self) -> bool:
        return self.failed or self.interrupted

    def interrupt(self) -> None:
        self.interrupted = True


@dataclass(eq=False)
class _List:
    """A job list on its way through the card."""

    entries: list[Entry]
    staged: Staged | None
    prepared: Prepared
    ticket: Ticket | None = None


class CardRun:
    """Runs once. When `stop` is wanted it ends between two lists."""

    def __init__(self, card: CardStore, call: Attention, work: Work, stop: Stop) -> None:
        self._card, self._call, self._work, self._stop = card, call, work, stop
        self._done: Done = []
        self._lists: list[_List] = []
        size = max(
            (states_nbytes(work.sources[s.source], call.layout) for step in work.steps for s in step.shares), default=0
        )
        self._states = card.ring.states(size) if len(work.steps) > 1 else (0, 0)

    def run(self) -> Done:
        """Results of all jobs with an output. When it raises, the card has no list in flight and no wave is held."""
        try:
            # Here and not in the thread of the caller, where Ctrl-C may fall between two steps of it.
            self._card.reader.plan([step.wave for step in self._work.steps], self._work.guesses)
            for some in self._at_once():
                self._submit(some, None)
            for number, step in enumerate(self._work.steps):
                if not self._card.reader.ready():
                    self._land()
                staged = self._card.reader.take()
                try:
                    self._upload(staged)
                    self._submit(self._entries(number, step, staged), staged)
                except BaseException:
                    self._card.reader.give(staged)
                    raise
            self._land()
        except BaseException:
            self._abandon()
            raise
        return self._done

    def _at_once(self) -> list[list[Entry]]:
        """Lists of the jobs that need no wave."""
        ready = [
            e for s in self._work.sources if not s.reach.fetches for e in entries(self._call, s, None, None, (0, 0))
        ]
        return [ready[i : i + JOBS_MAX] for i in range(0, len(ready), JOBS_MAX)]

    def _entries(self, number: int, step: Step, staged: Staged) -> list[Entry]:
        # States alternate between two sets: the one that this wave starts from is not the one that it leaves.
        states = (self._states[(number + 1) % 2], self._states[number % 2])
        return [
            entry
            for share in step.shares
            for entry in entries(self._call, self._work.sources[share.source], share, staged.slot, states)
        ]

    def _upload(self, staged: Staged) -> None:
        """Checksums, and on the bounce path the pages, of a wave."""
        card, slot = self._card, staged.slot
        if slot.bounce is not None:
            nbytes = sum(fetch.nbytes(self._call.layout) for fetch in staged.wave)
            card.device.upload(card.ring.pages, slot.bounce[:nbytes], slot.offset)
            card.bounce_nbytes += nbytes
        crcs = np.concatenate([fetch.group.crcs[fetch.layer].reshape(-1) for fetch in staged.wave])
        card.device.upload_checksums(card.ring.crcs, crcs.tobytes(), slot.crc_offset)

    def _submit(self, some: list[Entry], staged: Staged | None) -> None:
        if self._stop.wanted:
            raise Stopped
        prepared = self._card.device.prepare([entry.job for entry in some])
        self._land()
        new = _List(some, staged, prepared)
        new.ticket = self._card.device.start(prepared)
        self._lists.append(new)

    def _land(self) -> None:
        """Waits for the list in flight, keeps its results and gives its pages back."""
        if not self._lists:
            return
        flying = self._lists.pop()
        assert flying.ticket is not None
        try:
            results = self._card.device.wait(flying.ticket)
        except JobError as error:
            _explain(error, flying.entries, self._call)
            raise
        finally:
            if flying.staged is not None:
                self._card.reader.give(flying.staged)
        self._done += [(e, r) for e, r in zip(flying.entries, results, strict=True) if e.last]

    def _abandon(self) -> None:
        """Waits for what is in flight, whose outcome does not matter any more."""
        with suppress(DriverError):
            self._land()
        self._card.device.abandon()
        self._card.reader.forget()


def _explain(error: JobError, some: Sequence[Entry], call: Attention) -> None:
    """Notes whose job failed and, where a page of an extent was bad, which page on flash that is."""
    if error.job >= len(some):
        return
    entry = some[error.job]
    state, part = entry.source.query.state, entry.source.part
    error.add_note(f"job {error.job} is layer {call.layer}, sequence {state.id}, KV head {entry.head}")
    index = _extent(error, entry, call)
    if index is not None:
        group = part.data.groups[index]
        how = "streamed" if index in entry.streamed else "in card memory"
        extent = group.first // call.layout.extent_tokens
        error.add_note(f"the segment is extent {extent}, {how}, from {part.card.volume.path(group.place)}")


def _extent(error: JobError, entry: Entry, call: Attention) -> int | None:
    """Index of the group that the failed segment stands for; None for tail, new rows and everything else."""
    segment = error.status["segment"]
    if segment >= len(entry.job.segments) or not entry.job.segments["crc_addr"][segment]:
        return None
    first = int(entry.job.segments["first_position"][segment])
    return entry.source.part.data.number(first)
