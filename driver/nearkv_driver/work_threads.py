# SPDX-License-Identifier: Apache-2.0
"""Threads that do what they are given, and waiting for it. Knows no card, no page and no file.

Ctrl-C may fall into the thread that gives and waits at any moment, and a program that catches it goes on. What
`threading` and `concurrent.futures` offer for this (Event, Condition, Future) takes a lock in Python code, and a Ctrl-C
just behind that leaves it locked: whoever wants it next waits for ever. A Ctrl-C in `Thread.join` makes it take the
thread for ended. Here are only plain locks, which `with` takes and gives back in one step of the interpreter, and
single assignments.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Latch:
    """Is set once, from then on nobody waits. As threading.Event, but whole after a Ctrl-C in `wait`."""

    def __init__(self) -> None:
        self._closed = threading.Lock()  # taken until it is set
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
        """Whether it is set; returns after `seconds` at the latest. Who waits with a limit must be the only one: a
        Ctrl-C behind `acquire` keeps the lock."""
        if self._is_set:
            return True
        if seconds is None:
            with self._closed:  # and so on to the next who waits
                pass
        elif self._closed.acquire(timeout=min(max(0.0, seconds), threading.TIMEOUT_MAX)):
            self._closed.release()
        return self._is_set


class Call(Generic[T]):
    """Work for a thread, and what came of it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._begins: dict[str, bool] = {}  # one entry, made in one step: by `run` or by `withdraw`, who comes first
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

    def withdraw(self) -> bool:
        """Whether the work has not begun. It never will then, and must not be waited for. May be asked again."""
        return not self._begins.setdefault("begins", False)

    def run(self) -> None:
        """The thread's part."""
        work, self._work = self._work, None
        assert work is not None
        try:
            if self._begins.setdefault("begins", True):
                self._results.append(work())
        except BaseException as error:  # handed to the thread that waits
            self._error = error
        ended = self._ended
        del work, self  # the error's traceback keeps this frame
        ended.set()


class WorkThreads:
    """`count` daemon threads, started by the first work at the latest, that take work in the order of its giving."""

    def __init__(self, name: str, count: int = 1) -> None:
        self._name, self._count = name, count
        self._work: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._threads: list[tuple[threading.Thread, Latch]] = []
        self._unfinished = False  # Ctrl-C fell into starting or closing: what there is has to be closed

    def give(self, work: Callable[[], T]) -> Call[T]:
        """RuntimeError of the system that starts no more threads."""
        call = Call(work)
        self.put(call)
        return call

    def put(self, call: Call[Any]) -> None:
        """As `give`. The call is in the caller's hands before, whenever Ctrl-C falls."""
        self.start()
        self._work.put(call)

    def start(self) -> None:
        """The threads live when this returns. RuntimeError where the system, or an interpreter that ends, starts none;
        then none was given any work."""
        if self._unfinished:
            self.close()
        if not self._threads:
            self._start()

    def finish(self, calls: Sequence[Call[Any]], hurry: Callable[[], None] | None = None) -> None:
        """Has the calls made and returns when they have ended; it does not raise what they raise.

        What a signal's handler raises meanwhile, most of all KeyboardInterrupt, is raised when each call has ended or
        is withdrawn, however many signals come. `hurry` is called after each signal, and must not raise.
        """
        try:
            for call in calls:
                self.put(call)
            for call in calls:
                call.error()
        except BaseException as told:  # noqa: F841  raised at the end
            while True:
                # Between the tries nothing is called, nor logged: the next signal may be here already.
                try:
                    if hurry is not None:
                        hurry()
                    for call in calls:
                        if not call.withdraw():
                            call.error()
                    break
                except KeyboardInterrupt:
                    pass
                except BaseException as later:  # SystemExit of a SIGTERM, say, is not lost behind a Ctrl-C
                    told = later
            raise told

    def close(self, *, wait: bool = True) -> None:
        """Lets the threads end after what they were given, and waits for that; may be called again. A thread that calls
        it itself, as when it collects garbage, is not waited for."""
        self._unfinished = True
        self._work.put(None)
        if wait:
            for thread, ended in self._threads:
                if thread.ident != threading.get_ident():
                    ended.wait()
                    thread.join()
        self._threads, self._work, self._unfinished = [], SimpleQueue(), False

    def _start(self) -> None:
        # Which threads live after a Ctrl-C in here is not known. They get no work, and whoever comes next closes them.
        self._unfinished = True
        threads, handled = [], sys.exception()
        for number in range(self._count):
            ended = Latch()
            name = f"{self._name} {number}" if self._count > 1 else self._name
            thread = threading.Thread(target=_serve, args=(self._work, ended), name=name, daemon=True)
            threads.append((thread, ended))
            try:
                thread.start()
            except RuntimeError as error:
                # After a Ctrl-C it gives back a lock that it has not.
                if error.__context__ is not None and error.__context__ is not handled:
                    raise error.__context__ from None
                raise
        self._threads, self._unfinished = threads, False


def _serve(work: SimpleQueue[Call[Any] | None], ended: Latch) -> None:
    while (call := work.get()) is not None:
        call.run()
        del call
    work.put(None)  # for the next thread
    ended.set()
