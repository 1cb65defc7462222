# SPDX-License-Identifier: Apache-2.0
"""Calls that Ctrl-C does not break off in the middle. Knows nothing of what they do.

Python raises KeyboardInterrupt in the main thread, between any two steps of it: behind a commit that is on disk and
before the line that notes it. So what the main thread asks for is done in another thread, and Ctrl-C reaches only the
waiting, which ends when the call has.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial, wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from nearkv_driver.work_threads import Call, WorkThreads

P = ParamSpec("P")
T = TypeVar("T")


class WholeCalls:
    """One call at a time, for whoever makes them in turn. Calls of other threads than the main one run where they are:
    Ctrl-C does not reach them."""

    def __init__(self, name: str, check: Callable[[], None]) -> None:
        """`check` refuses, by raising, before a call is made: in a forked process there is no thread to make it."""
        self._name, self._check = name, check
        self._thread = WorkThreads(name)
        self._closed = False

    def run(self, work: Callable[[], T], on_interrupt: Callable[[], None] | None = None) -> T:
        """What `work` returns or raises; it sees the caller's context variables.

        KeyboardInterrupt, or what else a signal's handler raises, comes when the work has ended, or was not begun and
        never will be, however many signals come. `on_interrupt` is called after each, to hurry work whose result nobody
        wants any more; it must not raise. Work without it that fails after a signal is named in a note of what is told.
        """
        self._check()
        if self._closed or threading.get_ident() != threading.main_thread().ident:
            return work()
        try:
            self._thread.start()
        except RuntimeError:
            # From Python 3.12 on an interpreter that ends starts no thread. Better one that Ctrl-C may break off than
            # no call, such as the close of a store.
            return work()
        call = Call(partial(copy_context().run, work))
        try:
            self._thread.finish([call], on_interrupt)
        except BaseException as told:
            if call.done and on_interrupt is None and (failure := call.error()) is not None:
                told.add_note(f"and the call that it fell into: {failure}")
            raise
        try:
            return call.wait()
        finally:
            del call  # it has the error, whose traceback has this frame, and `work` with all that it works on

    def close(self) -> None:
        """Also from inside a call, which is the last one to run in the thread."""
        self._closed = True
        self._thread.close(wait=False)


class _HasWholeCalls(Protocol):
    _whole: WholeCalls


Self = TypeVar("Self", bound=_HasWholeCalls)


def whole(method: Callable[Concatenate[Self, P], T]) -> Callable[Concatenate[Self, P], T]:
    """A method of an object with a `_whole` that Ctrl-C does not break off in the middle."""

    @wraps(method)
    def run(self: Self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._whole.run(partial(method, self, *args, **kwargs))

    return run
