# SPDX-License-Identifier: Apache-2.0
"""Calls that Ctrl-C does not break off in the middle. Knows nothing of what they do.

Python raises KeyboardInterrupt in the main thread, between any two steps of it: behind a commit that is on disk and
before the line that notes it. So what the main thread asks for is done in another thread, and Ctrl-C reaches only the
waiting, which ends when the call has.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from nearkv_driver.work_threads import WorkThreads

P = ParamSpec("P")
T = TypeVar("T")
_log = logging.getLogger(__name__)


class WholeCalls:
    """One call at a time, for whoever makes them in turn. Calls of other threads than the main one run where they are:
    Ctrl-C does not reach them."""

    def __init__(self, name: str, check: Callable[[], None]) -> None:
        """`check` refuses, by raising, before a call is made: in a forked process there is no thread to make it."""
        self._name, self._check = name, check
        self._thread = WorkThreads(name)
        self._closed = False

    def run(self, work: Callable[[], T], on_interrupt: Callable[[], None] | None = None) -> T:
        """What `work` returns or raises. After Ctrl-C KeyboardInterrupt, when the work has ended, which `on_interrupt`
        may hurry; however often Ctrl-C is pressed meanwhile."""
        self._check()
        if self._closed or threading.current_thread() is not threading.main_thread():
            return work()
        try:
            call = self._thread.give(work)
            call.error()
        except BaseException:
            while True:
                try:  # no call before this: Ctrl-C may fall here too
                    if on_interrupt is not None:
                        on_interrupt()
                    self._thread.give(_nothing).wait()
                    break
                except KeyboardInterrupt:
                    _log.warning("%s: Ctrl-C; waiting for the call under way", self._name)
            raise
        return call.wait()

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


def _nothing() -> None:
    """Has been done when all before it has."""
