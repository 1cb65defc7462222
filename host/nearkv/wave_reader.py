# SPDX-License-Identifier: Apache-2.0
"""Reads waves of pages from one card's volume into its staging ring, in order and ahead of need. Computes nothing.

`plan` says which waves will be taken, and which are guessed to come after them. A guess costs nothing when it is
wrong: the next `plan` drops it. Reads run in threads of their own; `plan` and `take` may come from two other threads.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from nearkv_driver.errors import DriverError
from nearkv_driver.work_threads import WorkThreads

from nearkv.fetches import Request, Wave, requests
from nearkv.layout import ModelLayout
from nearkv.staging import Slot, StagingRing
from nearkv.stream_options import StreamOptions
from nearkv.volume import Volume

# Slot number, begin and end in seconds of what `clock` gives.
RecordRead = Callable[[int, float, float], None]


@dataclass
class ReadCounters:
    """`hits`: waves that were being read, or were there, before they were asked for; `dropped`: wrong guesses."""

    waves: int = 0
    hits: int = 0
    dropped: int = 0
    nbytes: int = 0


@dataclass(eq=False)
class _Load:
    """A wave on its way: `left` requests are to be done; without a slot it has not been begun."""

    wave: Wave
    slot: Slot | None = None
    left: int = 0
    nbytes: int = 0
    began_s: float = 0.0
    error: BaseException | None = None
    dropped: bool = False


@dataclass(frozen=True, eq=False)
class Staged:
    """A wave whose pages lie in `slot` until it is given back."""

    wave: Wave
    slot: Slot


class WaveReader:
    """Use `close` before the volume is closed. Of the rest, the main thread may use `counters` and `idle`: a Ctrl-C
    between two steps of a change would leave a slot that nobody frees."""

    def __init__(
        self,
        volume: Volume,
        ring: StagingRing,
        layout: ModelLayout,
        options: StreamOptions,
        *,
        record: RecordRead | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._volume, self._ring, self._layout, self._options = volume, ring, layout, options
        self._record, self._clock = record, clock
        self._counters = ReadCounters()
        # The lock is taken as such: taking a Condition is Python code, which Ctrl-C may fall into. Its thread may take
        # it once more: `record` that asks for counters, or the garbage collector with a store that nobody closed.
        self._using = threading.RLock()
        self._changed = threading.Condition(self._using)
        self._queue: deque[_Load] = deque()
        self._free = deque(ring.slots)
        self._threads = WorkThreads(f"reads of {volume.folder}", options.reads)
        self._closed = False

    @property
    def counters(self) -> ReadCounters:
        """A copy."""
        with self._using:
            return ReadCounters(**vars(self._counters))

    def plan(self, wanted: Sequence[Wave], guesses: Sequence[Wave] = ()) -> None:
        """`wanted` will be taken, in this order, and nothing else; `guesses` may be wanted by the next plan.

        What is queued already and still right is kept. Without `prefetch` guesses are ignored.
        """
        with self._using:
            kept = 0
            for load, wave in zip(self._queue, wanted, strict=False):
                if load.wave != wave or load.error is not None:
                    break
                kept += 1
            self._counters.hits += kept
            self._drop(kept)
            later = list(wanted[kept:])
            if self._options.ahead:
                later += guesses[: len(self._ring.slots)]
            self._queue.extend(_Load(wave) for wave in later)
            self._issue()

    @property
    def idle(self) -> bool:
        """Whether nothing is queued."""
        return not self._queue

    def ready(self) -> bool:
        """Whether `take` would not wait."""
        with self._using:
            return bool(self._queue) and _done(self._queue[0])

    def take(self) -> Staged:
        """The next wanted wave, when its pages are there; the StorageError that a read of it raised."""
        with self._using:
            while not self._closed and not _done(self._queue[0]):
                self._changed.wait()
            if self._closed:  # and nothing is queued any more
                raise DriverError("the card was closed")
            load = self._queue.popleft()
            slot = load.slot
            assert slot is not None
            error, load.error = load.error, None  # its traceback has the load: no circle
            if error is not None:
                self._release(slot)
                try:
                    raise error
                finally:
                    del error
            self._counters.waves += 1
            return Staged(load.wave, slot)

    def give(self, staged: Staged) -> None:
        """The pages are not needed any more."""
        with self._using:
            self._release(staged.slot)

    def forget(self) -> None:
        """Drops everything that is queued."""
        with self._using:
            self._drop(0)

    def close(self) -> None:
        """Returns when no read is under way; may be called again."""
        with self._using:
            self._closed = True
            self._drop(0)
            self._changed.notify_all()
        self._threads.close()

    def _drop(self, kept: int) -> None:
        while len(self._queue) > kept:
            load = self._queue.pop()
            load.dropped, load.error = True, None
            if load.slot is not None:
                self._counters.dropped += 1
                if not load.left:
                    self._release(load.slot)

    def _release(self, slot: Slot) -> None:
        self._free.append(slot)
        self._issue()

    def _issue(self) -> None:
        """Gives free slots to the waves that are next, and their requests to the threads."""
        if self._closed:
            return
        for load in self._queue:
            if load.slot is not None:
                continue
            # Without prefetch a wave is begun when every slot is free: the one before has been computed.
            if not self._free or (not self._options.ahead and len(self._free) < len(self._ring.slots)):
                return
            load.slot = self._free.popleft()
            todo = requests(load.wave, self._layout, self._options.request_nbytes)
            load.left, load.nbytes = len(todo), sum(request.nbytes for request in todo)
            for request in todo:
                self._threads.give(partial(self._serve, load, request))

    def _serve(self, load: _Load, request: Request) -> None:
        error: BaseException | None = None
        if not load.dropped and load.error is None:
            error = self._read(load, request)
        with self._using:
            if not load.dropped:
                load.error = load.error or error
            del error  # its traceback leads back to this frame
            load.left -= 1
            if not load.left:
                self._ended(load)

    def _read(self, load: _Load, request: Request) -> BaseException | None:
        slot = load.slot
        assert slot is not None
        if self._record is not None and not load.began_s:
            load.began_s = self._clock()
        try:
            view = self._ring.target(slot, request.at, request.nbytes)
            self._volume.read_into(request.place, request.offset, view)
        except BaseException as failed:  # handed to the thread that takes the wave
            return failed
        return None

    def _ended(self, load: _Load) -> None:
        slot = load.slot
        assert slot is not None
        if load.error is None and not load.dropped:
            self._counters.nbytes += load.nbytes
        if self._record is not None and load.began_s:
            self._record(slot.number, load.began_s, self._clock())
        if load.dropped:
            self._release(slot)
        self._changed.notify_all()


def _done(load: _Load) -> bool:
    return load.slot is not None and not load.left
