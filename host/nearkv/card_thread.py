# SPDX-License-Identifier: Apache-2.0
"""A thread of its own for each card, so that cards work at the same time. Knows no card: it runs what it is given."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class CardThread:
    """Runs work in the order in which it is given; the thread begins with the first work."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._work.put((work, future))
        return future

    def close(self) -> None:
        """Lets the thread end after what it has been given; may be called again."""
        if self._thread is not None:
            self._work.put(None)
            self._thread = None

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, future = item
            try:
                future.set_result(work())
            except BaseException as error:  # handed to the thread that waits
                future.set_exception(error)
            del item, work, future
