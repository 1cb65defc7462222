# SPDX-License-Identifier: Apache-2.0
"""Division, log-sum-exp and the merge of integer states, against exact rational arithmetic and against one card."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.merge import RawState, merge_states, outputs, round_state
from nearkv_driver.commands import AttendJob, AttendResult, RawResult, segments
from nearkv_driver.device import NearDevice
from nearkv_driver.regmap import EMPTY_T

BIN = st.integers(-(2**49), 2**49 - 1)


def state(o: list[int], l: list[int], t: int) -> RawState:  # noqa: E741
    return RawState(np.array(o).reshape(1, 3, 1), np.array(l).reshape(1, 3), np.array([t], np.int32))


def test_outputs_divide_and_take_logarithms() -> None:
    o = np.array([[3.0, -1.5], [0.0, 0.0]], np.float32)
    out, lse = outputs(o, np.array([2.0, 0.0], np.float32), np.array([3, EMPTY_T], np.int32))
    np.testing.assert_array_equal(out, np.array([[1.5, -0.75], [0, 0]], np.float32))
    assert (out.dtype, lse.dtype) == (np.float32, np.float64)
    assert lse[0] == pytest.approx((1 + 96) * np.log(2), rel=1e-15)
    assert np.isneginf(lse[1])


@given(bins=st.tuples(BIN, BIN, BIN))
def test_rounding_is_to_nearest_even_once(bins: tuple[int, int, int]) -> None:
    got = round_state(state(list(bins), [1, 0, 0], 0))[0][0, 0]
    exact = sum(Fraction(b, 2 ** (32 * i)) for i, b in enumerate(bins))
    near = [np.nextafter(got, np.float32(s), dtype=np.float32) for s in (-np.inf, np.inf)]
    distance = abs(Fraction(float(got)) - exact)
    for other in near:
        there = abs(Fraction(float(other)) - exact)
        assert distance <= there
        if distance == there:
            assert int(got.view(np.uint32)) % 2 == 0


@given(tops=st.lists(st.integers(-6, 6), min_size=1, max_size=5), data=st.data())
def test_merging_adds_bins_of_equal_weight_in_any_order(tops: list[int], data: st.DataObject) -> None:
    small = st.integers(-(2**40), 2**40)
    states = [state(data.draw(st.tuples(small, small, small)), [1, 2, 3], t) for t in tops]
    merged = merge_states(states)
    top = max(tops)
    for i in range(3):
        want = sum(int(s.o[0, j, 0]) for s in states for j in range(3) if int(s.t[0]) - j == top - i)
        assert merged.o[0, i, 0] == want
    again = merge_states([merge_states(states[1:]), states[0]]) if len(states) > 1 else merged
    for a, b in ((merged.o, again.o), (merged.l, again.l), (merged.t, again.t)):
        np.testing.assert_array_equal(a, b)


def test_an_empty_state_adds_nothing() -> None:
    full, empty = state([5, -6, 7], [1, 2, 3], -2), state([0, 0, 0], [0, 0, 0], EMPTY_T)
    for merged in (merge_states([full, empty]), merge_states([empty, full])):
        np.testing.assert_array_equal(merged.o, full.o)
        assert merged.t[0] == -2
    assert merge_states([empty, empty]).t[0] == EMPTY_T


def test_states_of_different_rows_are_refused() -> None:
    one = state([1, 2, 3], [1, 2, 3], 0)
    two = RawState(np.zeros((2, 3, 1), np.int64), np.zeros((2, 3), np.int64), np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="different rows"):
        merge_states([one, two])
    with pytest.raises(ValueError, match="at least one"):
        merge_states([])


@pytest.mark.parametrize("cut", [16, 96, 112, 160])
def test_a_split_by_tokens_merges_to_the_bits_of_one_card(cut: int) -> None:
    random = np.random.default_rng(7)
    tokens, d, rows = 200, 64, 3
    k, v = ((random.normal(size=(tokens, d)) * 3).astype(np.float16) for _ in range(2))
    q = random.normal(size=(rows, d)).astype(np.float32)
    with NearDevice.open("sw_emu:0?dram=8M") as device:
        buffer = device.alloc(2 * k.nbytes)
        device.upload(buffer, k.tobytes())
        device.upload(buffer, v.tobytes(), k.nbytes)

        def run(first: int, end: int, *, raw: bool) -> AttendResult | RawResult:
            at = buffer.address + first * d * 2
            table = segments([(end - first, first, at, at + k.nbytes, 0)])
            return device.attend([AttendJob(d, q, ((0, tokens),), 0.125, segments=table, raw=raw)])[0]

        whole = run(0, tokens, raw=False)
        parts = [run(0, cut, raw=True), run(cut, tokens, raw=True)]
    assert isinstance(whole, AttendResult)
    merged = merge_states([RawState(p.o, p.l, p.t) for p in parts if isinstance(p, RawResult)])
    o, l = round_state(merged)  # noqa: E741
    np.testing.assert_array_equal(o, whole.o)
    np.testing.assert_array_equal(l, whole.l)
    np.testing.assert_array_equal(merged.t, whole.t)
