# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at a chosen moment of a piece of code, without a clock. Knows nothing of what runs."""

from __future__ import annotations

import sys
from types import FrameType

# A signal is looked at where a Python function begins or goes on, and behind a call into C code.
_MOMENTS = ("call", "c_return")


class Interrupts:
    """While open, counts the moments at which Ctrl-C can strike this thread. It strikes at number `at`, if that is not
    0, and once more where the `again`th function after that begins, and `struck` tells that it has: some callbacks of
    Python lose it. With `among` only moments in files count whose path contains one of these."""

    def __init__(self, at: int = 0, again: int = 0, among: tuple[str, ...] = ("",)) -> None:
        self._at, self._again = at, again
        self._among, self.moments, self.struck = among, 0, False

    def __enter__(self) -> Interrupts:
        # Python takes a function that raises off its hook: the second strike needs one of its own.
        if self._again:
            sys.settrace(self._begun)
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if event in _MOMENTS and not self.struck and self._counts(frame):
            self.moments += 1
            if self.moments == self._at:
                self.struck = True
                raise KeyboardInterrupt

    def _counts(self, frame: FrameType) -> bool:
        name = frame.f_code.co_filename
        return name != __file__ and any(part in name for part in self._among) and not _notes(frame)

    def _begun(self, frame: FrameType, event: str, _: object) -> None:
        if self.struck and self._again and self._counts(frame):
            self._again -= 1
            if not self._again:
                raise KeyboardInterrupt


def _notes(frame: FrameType | None) -> bool:
    """Whether pytest notes an exception that Python lost just then."""
    while frame is not None and frame.f_code.co_name != "unraisable_hook":
        frame = frame.f_back
    return frame is not None
