# SPDX-License-Identifier: Apache-2.0
"""What happens to open sequences beside the rows that calls bring: forks, crops, what becomes durable, their end. The
order of the steps; how rows move in them is in `forks` and `sessions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nearkv import forks, sessions
from nearkv.errors import UserError
from nearkv.eviction import touch
from nearkv.layout import ModelLayout
from nearkv.open_sequences import OpenSequences
from nearkv.sequence import SequenceState
from nearkv.spiller import Spiller
from nearkv.tail import WriteBuffer


class SequenceLives:
    """Of one store. `forget` is called when a sequence ends: what was guessed of calls to come may name it."""

    def __init__(
        self,
        layout: ModelLayout,
        sequences: OpenSequences,
        spiller: Spiller,
        buffer: WriteBuffer,
        forget: Callable[[], None],
    ) -> None:
        self._layout, self._sequences, self._spiller = layout, sequences, spiller
        self._buffer, self._forget = buffer, forget

    def fork(self, sequence: int) -> int:
        """As `KVStore.fork`."""
        parent = self._sequences[sequence]
        self._spiller.drain(parent)
        return self._sequences.enter(forks.fork(parent, self._sequences.next_id, self._layout, self._buffer))

    def select(self, sequences: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
        """As `KVStore.select`."""
        ids = [state.id for state in self._sequences.batch(sequences)]
        return forks.select(ids, order, self.fork, self.flush_named, lambda i: self._release(self._sequences[i]))

    def crop(self, sequence: int, length: int) -> None:
        """As `KVStore.crop`."""
        state = self._sequences[sequence]
        if not 0 <= length <= max(state.tail.end):
            raise UserError(f"sequence {sequence} cannot be cropped to {length}; it holds {max(state.tail.end)} tokens")
        self._spiller.settle(state)
        sessions.crop(state, length, self._layout)

    def flush(self) -> None:
        """As `KVStore.flush`."""
        sessions.flush_all(list(self._sequences.values()), self._layout, self._spiller.settle)

    def flush_named(self, sequences: Sequence[int]) -> None:
        """As `flush`, of those of them that have a name."""
        states = [state for state in map(self._sequences.__getitem__, sequences) if state.name is not None]
        sessions.flush_all(states, self._layout, self._spiller.settle)

    def free(self, sequence: int) -> None:
        """As `KVStore.free`."""
        state = self._sequences[sequence]
        self.flush_named([sequence])
        touch([state])
        self._release(state)

    def _release(self, state: SequenceState) -> None:
        self._spiller.abandon(state)
        self._sequences.remove(state.id)  # before, not behind: nobody may use what is half given back
        self._forget()
        sessions.release(state, self._layout)
