# SPDX-License-Identifier: Apache-2.0
"""Threads that do what they are given, and waiting for it. Knows no card, no page and no file.

Ctrl-C may fall into the thread that gives and waits at any moment, and a program that catches it goes on. What
`threading` and `concurrent.futures` offer for this (Event, Condition, Future) takes a lock in Python code, and a Ctrl-C
just behind that leaves it locked: whoever wants it next waits for ever. Here are only plain locks, which `with` takes
and gives back in one step of the interpreter, and single assignments.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Latch:
    """Is set once, from then on nobody waits. As threading.Event, but whole after a Ctrl-C in `wait`."""

    def __init__(self) -> None:
        self._closed = threading.Lock()
        self._closed.acquire()
        self._is_set = False

    @property
    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Once, and never in the main thread, which alone gets Ctrl-C."""
        self._is_set = True
        self._closed.release()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it is set; returns after `seconds` at the latest. One thread at a time may wait with a limit."""
        if self._is_set:
            return True
        if seconds is None:
            with self._closed:  # and so on to the next who waits
                pass
        elif self._closed.acquire(timeout=min(max(0.0, seconds), threading.TIMEOUT_MAX)):
            self._closed.release()
        return self._is_set


class Call(Generic[T]):
    """Work that was given to a thread."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._ended = Latch()
        self._results: list[T] = []
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        return self._ended.is_set

    def ends_within(self, seconds: float) -> bool:
        """Whether the work has ended, which is waited for; raises what it raised."""
        if not self._ended.wait(seconds):
            return False
        self.wait()
        return True

    def wait(self) -> T:
        """What the work returned or raised, when it has ended."""
        error = self.error()
        if error is None:
            return self._results[0]
        try:
            raise error
        finally:
            del self, error  # else the error holds itself and this through its traceback, and all that they hold

    def error(self) -> BaseException | None:
        """What the work raised, when it has ended."""
        self._ended.wait()
        return self._error

    def run(self) -> None:
        """The thread's part."""
        work, self._work = self._work, None
        assert work is not None
        try:
            self._results.append(work())
        except BaseException as error:  # handed to the thread that waits
            self._error = error
        ended = self._ended
        del work, self  # the error's traceback keeps this frame
        ended.set()


class WorkThreads:
    """`count` daemon threads, started with the first work, that take work in the order in which it is given."""

    def __init__(self, name: str, count: int = 1) -> None:
        self._name, self._count = name, count
        self._work: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closing = False

    def give(self, work: Callable[[], T]) -> Call[T]:
        """RuntimeError of the system that starts no more threads."""
        call = Call(work)
        if self._closing:  # Ctrl-C fell into it
            self.close()
        if not self._threads:
            self._start()
        self._work.put(call)
        return call

    def close(self, *, wait: bool = True) -> None:
        """Lets the threads end after what they were given, and waits for that; may be called again."""
        self._closing = True
        self._work.put(None)
        if wait:
            for thread in self._threads:
                thread.join()
        self._threads, self._work, self._closing = [], SimpleQueue(), False

    def _start(self) -> None:
        threads = []
        try:
            for number in range(self._count):
                name = f"{self._name} {number}" if self._count > 1 else self._name
                thread = threading.Thread(target=_serve, args=(self._work,), name=name, daemon=True)
                threads.append(thread)
                thread.start()
        except BaseException as error:
            # Which of them live is not known. They get no work, and the next who gives some starts others.
            self._work.put(None)
            self._work = SimpleQueue()
            if isinstance(error.__context__, KeyboardInterrupt):  # Thread.start gives back a lock that it has not
                raise error.__context__ from None
            raise
        self._threads = threads


def _serve(work: SimpleQueue[Call[Any] | None]) -> None:
    while (call := work.get()) is not None:
        call.run()
        del call
    work.put(None)  # for the next thread
