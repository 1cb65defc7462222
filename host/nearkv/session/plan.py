# SPDX-License-Identifier: Apache-2.0
"""What has to be computed again when a session is opened: pure. Runs nothing.

K and V that are computed in other pieces than before differ in their last bits, and then so may the tokens. So a
prefill of which something is missing is computed again whole, in the same chunks, and every later token in a step of
its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nearkv.session.state import SessionState


@dataclass(frozen=True)
class Forward:
    """The model runs over tokens [first, end) at once, after the K and V of everything before."""

    first: int
    end: int


@dataclass(frozen=True)
class Plan:
    """First keep the K and V of tokens [0, `keep`) alone, then do the forwards in order."""

    keep: int
    forwards: tuple[Forward, ...]


def plan(state: SessionState, stored: int) -> Plan:
    """Brings a cache that holds the K and V of tokens [0, stored) to what it held when the last record was written."""
    keep = min(stored, state.cached)
    if keep < state.adopted:
        keep = 0
    broken = next((p for p in state.prefills if p.first < keep < p.end), None)
    if broken is not None:
        keep = broken.first
    return Plan(keep, tuple(_forwards(state, keep)))


def _forwards(state: SessionState, keep: int) -> Iterator[Forward]:
    position = keep
    if position < state.adopted:
        # How another session computed them is not known here.
        yield Forward(0, state.adopted)
        position = state.adopted
    prefills = {p.first: p for p in state.prefills}
    while position < state.cached:
        prefill = prefills.get(position)
        if prefill is None:
            yield Forward(position, position + 1)
            position += 1
            continue
        end = min(prefill.end, state.cached)
        for first in range(position, end, prefill.chunk or end - position):
            yield Forward(first, min(end, first + (prefill.chunk or end - position)))
        position = end
