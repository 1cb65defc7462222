# SPDX-License-Identifier: Apache-2.0
"""Runs work for one volume behind the caller's back, one piece after the other. Knows no page and no sequence."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

Work = Callable[[], None]


class Task(Protocol):
    """Work that was given to a writer."""

    @property
    def done(self) -> bool: ...

    def wait(self) -> None:
        """Returns when the work has ended; raises what it raised."""
        ...


class Writer(Protocol):
    """Takes work in order. Tests have their own, which does it when told."""

    def give(self, work: Work) -> Task: ...

    def close(self) -> None:
        """Returns when everything that was given has ended; may be called again."""
        ...


class _ThreadTask:
    def __init__(self, work: Work) -> None:
        self._work: Work | None = work
        self._ended = threading.Event()
        self._failure: BaseException | None = None

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    def wait(self) -> None:
        self._ended.wait()
        if self._failure is not None:
            raise self._failure

    def run(self) -> None:
        work, self._work = self._work, None
        assert work is not None
        try:
            work()
        except BaseException as error:  # handed to the thread that waits
            self._failure = error
        del work
        self._ended.set()


class WriterThread:
    """One daemon thread, started with the first work."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: SimpleQueue[_ThreadTask | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def give(self, work: Work) -> Task:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        task = _ThreadTask(work)
        self._tasks.put(task)
        return task

    def close(self) -> None:
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task.run()
            del task
