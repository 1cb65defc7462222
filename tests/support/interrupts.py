# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at a chosen moment of a piece of code, without a clock. Knows nothing of what runs."""

from __future__ import annotations

import sys
from types import FrameType

# A signal is looked at where a Python function begins or goes on, and behind a call into C code.
_MOMENTS = ("call", "c_return")


class Interrupts:
    """While open, counts the moments at which Ctrl-C can strike this thread. It strikes at number `at`, if that is not
    0, and `again` moments later, and `struck` tells that it has: some callbacks of Python lose it. With `among` only
    moments in files count whose path contains one of these."""

    def __init__(self, at: int = 0, again: int = 0, among: tuple[str, ...] = ("",)) -> None:
        self._strikes = [at] if not again else [at, at + again]
        self._among, self.moments, self.struck = among, 0, False

    def __enter__(self) -> Interrupts:
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if event in _MOMENTS and any(part in frame.f_code.co_filename for part in self._among):
            self.moments += 1
            if self._strikes and 0 < self._strikes[0] <= self.moments:
                del self._strikes[0]
                self.struck = True
                raise KeyboardInterrupt
