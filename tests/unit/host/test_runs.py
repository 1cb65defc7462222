# SPDX-License-Identifier: Apache-2.0
"""No slot is given out twice, none is lost, and free neighbours join."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.runs import RunAllocator


@given(
    start=st.integers(0, 12),
    steps=st.lists(st.tuples(st.sampled_from(["take", "release", "grow"]), st.integers(1, 5)), max_size=40),
)
def test_slots_are_given_out_once(start: int, steps: list[tuple[str, int]]) -> None:
    runs, taken = RunAllocator(start), list[tuple[int, int]]()
    for what, n in steps:
        if what == "grow":
            runs.grow(n)
        elif what == "take":
            first = runs.take(n)
            if first is not None:
                taken.append((first, n))
        elif taken:
            runs.release(*taken.pop(n % len(taken)))
        slots = [first + i for first, count in taken for i in range(count)]
        assert len(slots) == len(set(slots)) == runs.slots - runs.free_slots
        assert all(0 <= slot < runs.slots for slot in slots)
    for run in taken:
        runs.release(*run)
    assert runs.take(runs.slots) == 0 if runs.slots else runs.free_slots == 0


def test_first_fit_and_none_when_no_run_is_long_enough() -> None:
    runs = RunAllocator(6)
    assert [runs.take(2), runs.take(2), runs.take(2), runs.take(1)] == [0, 2, 4, None]
    runs.release(0, 2)
    runs.release(4, 2)
    assert runs.free_slots == 4
    assert runs.take(3) is None
    runs.release(2, 2)
    assert runs.take(6) == 0


def test_misuse_is_refused() -> None:
    runs = RunAllocator(4)
    runs.reserve(1, 2)
    for call in (lambda: runs.reserve(2, 1), lambda: runs.reserve(3, 2), lambda: runs.release(0, 1)):
        with pytest.raises(ValueError, match="slots"):
            call()
    with pytest.raises(ValueError, match="do not exist"):
        runs.release(3, 2)
    with pytest.raises(ValueError, match="-1"):
        runs.grow(-1)
    assert (runs.take(1), runs.take(1)) == (0, 3)
