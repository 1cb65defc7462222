# SPDX-License-Identifier: Apache-2.0
"""The named sequences that a store's volumes hold: found, opened, begun with what others have, copied, deleted, on all
cards together. Stores no row; what an open one holds in memory is not seen here.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from nearkv_driver.errors import StorageError

from nearkv import copies, sessions
from nearkv.card_store import CardStore
from nearkv.eviction import touch
from nearkv.layout import ModelLayout
from nearkv.open_sequences import OpenSequences
from nearkv.sequence import SequenceState
from nearkv.tail import WriteBuffer


class NamedSequences:
    """Of one store; what is opened enters `sequences`."""

    def __init__(
        self, layout: ModelLayout, cards: Sequence[CardStore], sequences: OpenSequences, buffer: WriteBuffer
    ) -> None:
        self._layout, self._cards, self._sequences, self._buffer = layout, tuple(cards), sequences, buffer

    def names(self) -> tuple[str, ...]:
        """Of all sequences on the volumes."""
        return tuple(sorted({name for card in self._cards for name in card.volume.index.names()}))

    def used_nbytes(self, name: str) -> int:
        """What it takes on all volumes as of its last flush; shared pages count in full."""
        found = [card.volume.index.find(name) for card in self._cards]
        return sum(len(r.places) * len(r.heads) * self._layout.slot_nbytes for r in found if r is not None)

    def open(self, name: str) -> int:
        """Its number. KeyError: unknown name."""
        self._sequences.check_closed(name)
        with self._sequences.held(name):
            state = sessions.load(self._sequences.next_id, name, self._cards, self._layout, self._buffer)
            sequence = self._sequences.enter(state)
        touch([state])
        return sequence

    def begin(self, name: str, keys: Sequence[bytes], tokens: Sequence[int]) -> int | None:
        """Opens a new one that begins with extents that others have under `keys`; None where none has any, and then
        nothing is made. UserError for a name that is taken.

        Where it fails the volumes do not know the name, unless the sequence is open by then.
        """
        copies.check_new(self._cards, name)
        if not keys:
            return None
        try:
            return self.open(name) if copies.adopt(self._cards, self._layout, name, keys, tokens) else None
        except BaseException:
            for card in self._cards if self._sequences.named(name) is None else ():
                with suppress(StorageError):  # what failed, most likely
                    copies.remove(card.volume, name)
            raise

    def shared(self, keys: Sequence[bytes], tokens: Sequence[int]) -> int:
        """How many tokens `begin` would find."""
        return copies.shared(self._cards, self._layout, keys, tokens)

    def check_copy(self, parent: SequenceState, name: str) -> None:
        """UserError where `copy` may not be made."""
        copies.check_new(self._cards, name)
        copies.check_parent(parent)

    def copy(self, parent: SequenceState, name: str) -> None:
        """A new one, not open, that has what `parent`, which is flushed, has on the volumes."""
        with self._sequences.held(name):
            copies.fork_named(parent, name)

    def delete(self, name: str) -> None:
        """KeyError for an unknown one, UserError for one that is open."""
        self._sequences.check_closed(name)
        sessions.delete(name, self._cards)
