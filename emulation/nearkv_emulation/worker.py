# SPDX-License-Identifier: Apache-2.0
"""Runs an emulated card's lists on a thread of its own, one after the other. Knows no registers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], None]


class Worker:
    """One daemon thread; `give` hands it work, `wait` says whether the work has ended."""

    def __init__(self, name: str) -> None:
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def give(self, work: Work) -> None:
        self._ended.clear()
        self._work.put(work)

    def wait(self, seconds: float) -> bool:
        """True when the work has ended; raises what it raised."""
        if not self._ended.wait(seconds):
            return False
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return True

    def close(self) -> None:
        """Lets the thread end after the work in hand, which it does not wait for."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except BaseException as error:  # handed to the thread that waits
                self._failure = error
            del work
            self._ended.set()
