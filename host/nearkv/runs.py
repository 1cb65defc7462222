# SPDX-License-Identifier: Apache-2.0
"""Gives out runs of equal slots from a range that can grow; pure bookkeeping, no memory and no file behind it.

A run may have several users; it is free again when the last one has released it.
"""

from __future__ import annotations

from bisect import insort


class RunAllocator:
    """First fit over `slots` slots numbered from 0. Neighbouring free runs are always one run."""

    def __init__(self, slots: int = 0) -> None:
        self._slots = 0
        self._free: list[tuple[int, int]] = []
        self._more: dict[int, int] = {}  # users beyond the first, by a run's first slot
        self.grow(slots)

    @property
    def slots(self) -> int:
        return self._slots

    @property
    def free_slots(self) -> int:
        return sum(n for _, n in self._free)

    def grow(self, slots: int) -> None:
        """Appends `slots` free slots."""
        if slots < 0:
            raise ValueError(f"cannot grow by {slots} slots")
        first, self._slots = self._slots, self._slots + slots
        if slots:
            self._insert(first, slots)

    def take(self, count: int) -> int | None:
        """First slot of a run of `count`, now in use; None when no free run is that long."""
        for i, (first, n) in enumerate(self._free):
            if n >= count:
                self._free[i : i + 1] = [(first + count, n - count)] if n > count else []
                return first
        return None

    def reserve(self, first: int, count: int) -> None:
        """Takes the run that starts at `first`; ValueError when part of it is in use or outside."""
        for i, (start, n) in enumerate(self._free):
            if start <= first and first + count <= start + n:
                rest = [(start, first - start), (first + count, start + n - first - count)]
                self._free[i : i + 1] = [r for r in rest if r[1]]
                return
        raise ValueError(f"slots {first} to {first + count - 1} are not free (of {self._slots})")

    def hold(self, first: int) -> None:
        """One more user of the run that starts at `first` and is in use."""
        self._more[first] = self._more.get(first, 0) + 1

    def users(self, first: int) -> int:
        """Users of the run that starts at `first` and is in use."""
        return 1 + self._more.get(first, 0)

    def release(self, first: int, count: int) -> None:
        """One user less; the last one gives the run back. ValueError when part of it is free already or outside."""
        if more := self._more.pop(first, 0):
            if more > 1:
                self._more[first] = more - 1
            return
        if first < 0 or count < 1 or first + count > self._slots:
            raise ValueError(f"slots {first} to {first + count - 1} do not exist (of {self._slots})")
        if any(start < first + count and first < start + n for start, n in self._free):
            raise ValueError(f"slots {first} to {first + count - 1} are free already")
        self._insert(first, count)

    def _insert(self, first: int, count: int) -> None:
        insort(self._free, (first, count))
        merged: list[tuple[int, int]] = []
        for start, n in self._free:
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + n)
            else:
                merged.append((start, n))
        self._free = merged
