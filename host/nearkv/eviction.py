# SPDX-License-Identifier: Apache-2.0
"""Makes room on a store's volumes: closed named sequences go, the one that was used longest ago first. Opens nothing.

A sequence goes from all cards at once. What others share of it stays, and an open sequence is never touched.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from weakref import WeakMethod

from nearkv_driver.errors import StorageError

from nearkv import sessions
from nearkv.card_store import CardStore
from nearkv.sequence import SequenceState

_log = logging.getLogger(__name__)


class Eviction:
    """`evicted` names what had to go, in that order."""

    def __init__(self, cards: Sequence[CardStore], open_names: WeakMethod[Callable[[], Collection[str]]]) -> None:
        """`open_names` is a store's, held weakly: its cards must not keep a store alive that was dropped."""
        self._cards, self._open_names = cards, open_names
        self.evicted: list[str] = []
        for card in cards:
            card.volume.make_room = self._make_room

    def _make_room(self, slots: int) -> bool:
        open_names = self._open_names()
        if open_names is None:
            return False
        keep = set(open_names())
        used: dict[str, int] = {}
        for card in self._cards:
            for used_ns, name in card.volume.index.by_use():
                used[name] = max(used_ns, used.get(name, 0))
        closed = sorted((when, name) for name, when in used.items() if name not in keep)
        if not closed:
            return False
        _, name = closed[0]
        sessions.delete(name, self._cards)
        self.evicted.append(name)
        _log.warning("space is short: sequence %r, unused for longest, is not stored any more", name)
        return True


def touch(states: Iterable[SequenceState]) -> None:
    """They were used now. Only the order of eviction hangs on it, so a failure costs nothing."""
    now = time.time_ns()
    for state in states:
        for part in state.parts:
            if part.data.record is not None:
                with suppress(StorageError):
                    part.card.volume.index.touch(part.data.record, now)
