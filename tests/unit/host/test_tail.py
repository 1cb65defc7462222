# SPDX-License-Identifier: Apache-2.0
"""The write buffer keeps its rows wherever they move, counts them, and never runs out of room."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.pages import whole_units
from nearkv.tail import Tail, WriteBuffer, slot_rows
from numpy.typing import NDArray

from tests.support.stores import layout


def rows(first: int, n: int) -> NDArray[np.float16]:
    """Rows that hold their own position."""
    return np.broadcast_to(np.arange(first, first + n)[None, :, None], (2, n, 64)).astype(np.float16)


def check(tail: Tail) -> None:
    live = tail.read(0, tail.stored[0], tail.end[0])
    assert live.shape == (2, 2, tail.live(0), tail.rows.shape[4])
    np.testing.assert_array_equal(live[1, 1, :, 0], np.arange(tail.stored[0], tail.end[0]) % 2048)


@given(st.lists(st.tuples(st.sampled_from(["attend", "append"]), st.integers(1, 64)), max_size=60))
@pytest.mark.parametrize("head_size", [64, 80, 128])
def test_room_is_always_there_when_less_than_a_unit_is_live(head_size: int, calls: list[tuple[str, int]]) -> None:
    shape = layout(layers=1, head_size=head_size)
    buffer = WriteBuffer()
    tail, unit = Tail(shape, buffer), shape.unit_tokens
    for what, n in calls:
        if tail.live(0) >= unit:
            tail.settle(0, whole_units(tail.end[0], unit), tail.end[0])
        end = tail.end[0] + n
        stored = max(tail.stored[0], whole_units(end, unit)) if what == "append" else tail.stored[0]
        k = rows(0, n) * 0 + (np.arange(end - n, end) % 2048).astype(np.float16)[None, :, None]
        before = tail.read(0, tail.stored[0], tail.end[0]).copy()
        if stored > tail.stored[0]:
            rest = end - stored
            row = tail.spare(0, rest)
            tail.put(0, row, k[:, n - rest :], k[:, n - rest :])
            np.testing.assert_array_equal(tail.read(0, tail.stored[0], tail.end[0]), before)
            tail.settle(0, stored, end, row)
        else:
            if not tail.fits(0, n):
                old = tail.read(0, tail.stored[0], tail.end[0])
                tail.put(0, 0, old[:, 0], old[:, 1])
                np.testing.assert_array_equal(tail.read(0, tail.stored[0], tail.end[0]), before)
                tail.settle(0, tail.stored[0], tail.end[0], 0)
            row = tail.row(0, tail.end[0])
            assert row + n <= slot_rows(shape, 1)
            tail.put(0, row, k, k)
            tail.settle(0, stored, end)
        check(tail)
        assert buffer.nbytes == tail.live(0) * shape.kv_bytes_per_token
        assert buffer.nbytes <= buffer.peak_nbytes < (unit + 64) * shape.kv_bytes_per_token


def test_rows_outside_the_tail_are_refused() -> None:
    tail = Tail(layout(), WriteBuffer())
    tail.put(0, 0, rows(0, 4), rows(0, 4))
    tail.settle(0, 0, 4)
    with pytest.raises(ValueError, match=r"\[0, 5\) is not in the tail \[0, 4\)"):
        tail.read(0, 0, 5)
    with pytest.raises(ValueError, match="do not fit"):
        tail.spare(0, slot_rows(layout(), 1))


def test_closing_takes_the_rows_out_of_the_account() -> None:
    buffer = WriteBuffer()
    tail = Tail(layout(), buffer)
    for layer in range(2):
        tail.put(layer, 0, rows(0, 9), rows(0, 9))
        tail.settle(layer, 0, 9)
    assert buffer.nbytes == 9 * layout().kv_bytes_per_token
    tail.close()
    assert (buffer.nbytes, buffer.peak_nbytes) == (0, 9 * layout().kv_bytes_per_token)


def test_padding_stays_zero() -> None:
    shape = layout(head_size=80)
    tail = Tail(shape, WriteBuffer())
    k = np.ones((2, 3, 80), np.float16)
    tail.put(0, 5, k, k)
    assert not tail.rows[..., 80:].any()
    assert tail.rows[0, :, :, 5:8, :80].all()
