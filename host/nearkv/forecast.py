# SPDX-License-Identifier: Apache-2.0
"""Guesses which attend call comes next, from which one came next before. Reads and stores nothing.

A step makes the same calls as the step before, layer by layer, in one batch or in several by turns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# More calls than any step makes; beyond it the call that was learned first is forgotten.
_MOST = 1 << 14


@dataclass(frozen=True)
class Call:
    """What of an attend call decides what is read."""

    layer: int
    sequences: tuple[int, ...]
    window: int


class Forecast:
    """Of one store with `layers` layers."""

    def __init__(self, layers: int) -> None:
        self._layers = layers
        self._after: dict[Call, Call] = {}
        self._last: Call | None = None

    def saw(self, call: Call) -> None:
        if self._last is not None:
            self._after[self._last] = call
            if len(self._after) > _MOST:
                del self._after[next(iter(self._after))]
        self._last = call

    def after(self, call: Call) -> Call:
        """What followed it last time; else the same call for the next layer."""
        return self._after.get(call) or replace(call, layer=(call.layer + 1) % self._layers)

    def forget(self) -> None:
        """Sequences have gone."""
        self._after.clear()
        self._last = None
