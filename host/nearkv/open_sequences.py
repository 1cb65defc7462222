# SPDX-License-Identifier: Apache-2.0
"""The sequences that a store has open, by number, and the names that are as good as open. Stores and moves nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, ValuesView
from contextlib import contextmanager

from nearkv.errors import UserError
from nearkv.ownership import Owner
from nearkv.sequence import SequenceState


class OpenSequences:
    """Numbers count up and are never given again. Looking one up is refused in a forked process."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._states: dict[int, SequenceState] = {}
        self._making: set[str] = set()  # names that a call under way makes or copies
        self.next_id = 0

    def __getitem__(self, sequence: int) -> SequenceState:
        self._owner.check()
        try:
            return self._states[sequence]
        except KeyError:
            raise KeyError(f"sequence {sequence} does not exist or was freed") from None

    def __contains__(self, sequence: int) -> bool:
        return sequence in self._states

    def __iter__(self) -> Iterator[int]:
        return iter(self._states)

    def values(self) -> ValuesView[SequenceState]:
        """The states, in the order in which they were opened."""
        return self._states.values()

    def batch(self, sequences: Sequence[int]) -> list[SequenceState]:
        """Their states; UserError where one stands twice."""
        states = [self[sequence] for sequence in sequences]
        if len({state.id for state in states}) != len(states):
            raise UserError(f"a sequence stands twice in {list(sequences)}")
        return states

    def check_closed(self, name: str) -> None:
        """UserError for the name of an open sequence."""
        if (there := self.named(name)) is not None:
            raise UserError(f"the sequence named {name!r} is open already, as {there}; free it first")

    def named(self, name: str) -> int | None:
        """The one of this name."""
        return next((state.id for state in self._states.values() if state.name == name), None)

    def enter(self, state: SequenceState) -> int:
        """It is open from now on; its number."""
        self._states[state.id] = state
        self.next_id = state.id + 1
        return state.id

    def remove(self, sequence: int) -> None:
        """It is not open any more."""
        del self._states[sequence]

    def clear(self) -> None:
        """None is."""
        self._states.clear()

    def names(self) -> set[str]:
        """Of those that have one, and those that are held."""
        return self._making | {state.name for state in self._states.values() if state.name is not None}

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """The name is as good as open."""
        self._making.add(name)
        try:
            yield
        finally:
            self._making.discard(name)
