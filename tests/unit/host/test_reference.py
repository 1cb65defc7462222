# SPDX-License-Identifier: Apache-2.0
"""The oracle against sums written out token by token, and its edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from nearkv import reference


def by_hand(q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: list[int], scale: float) -> tuple[np.ndarray, float]:
    """One row over the tokens that it sees, without the shift by the maximum."""
    weight = [math.exp(float(q @ k[t]) * scale) for t in seen]
    return sum(w * v[t] for w, t in zip(weight, seen, strict=True)) / sum(weight), math.log(sum(weight))


@pytest.mark.parametrize("window", [0, 1, 3, 100])
def test_a_head_is_the_sum_over_what_each_token_sees(window: int) -> None:
    rng = np.random.default_rng(1)
    q, k, v = rng.normal(size=(6, 8)), rng.normal(size=(9, 8)), rng.normal(size=(9, 5))
    limits = [(0, 7), (2, 9), (0, 1)]
    out, lse = reference.attend_head(q, k, v, scale=0.3, limits=limits, window=window)
    for row in range(6):
        first, limit = limits[row // 2]
        seen = [t for t in range(9) if first <= t < limit and (not window or t + window >= limit)]
        expected, expected_lse = by_hand(q[row], k, v, seen, 0.3)
        assert np.allclose(out[row], expected, rtol=1e-12)
        assert lse[row] == pytest.approx(expected_lse, rel=1e-12)


def test_positions_decide_and_not_the_order_of_tokens() -> None:
    rng = np.random.default_rng(2)
    q, k, v = rng.normal(size=(2, 4)), rng.normal(size=(6, 4)), rng.normal(size=(6, 4))
    order = rng.permutation(6)
    kept = reference.attend_head(q, k, v, scale=1, limits=[(0, 4)])
    moved = reference.attend_head(q, k[order], v[order], scale=1, limits=[(0, 4)], positions=order)
    assert np.allclose(kept[0], moved[0], rtol=1e-12)


def test_a_row_that_sees_nothing_gives_zeros() -> None:
    ones = np.ones((3, 4))
    for k, limits in ((ones, [(0, 0)]), (ones, [(3, 9)]), (ones[:0], [(0, 5)])):
        out, lse = reference.attend_head(ones[:2], k, k, scale=1, limits=limits)
        assert not out.any()
        assert np.isneginf(lse).all()


def test_scores_far_beyond_exp_do_not_overflow() -> None:
    q, k = np.full((1, 4), 1000.0), np.array([[1000.0] * 4, [-1000.0] * 4])
    out, lse = reference.attend_head(q, k, np.array([[1.5], [-7]]), scale=1)
    assert out[0, 0] == 1.5
    assert lse[0] == 4e6


def test_a_ragged_batch_is_its_sequences_one_by_one() -> None:
    rng = np.random.default_rng(3)
    lengths = (5, 0, 12)
    q = rng.normal(size=(3, 4, 2, 8))
    k, v = ([rng.normal(size=(2, n, 8)) for n in lengths] for _ in range(2))
    out, lse = reference.attend(q, k, v, scale=0.5, window=6)
    assert out.shape == (3, 4, 2, 8)
    assert not out[1].any()
    assert np.isneginf(lse[1]).all()
    for b in (0, 2):
        n = lengths[b]
        for head in range(4):
            limits = [(0, n - 1), (0, n)]
            alone, _ = reference.attend_head(
                q[b, head], k[b][head // 2], v[b][head // 2], scale=0.5, limits=limits, window=6
            )
            assert np.array_equal(out[b, head], alone)
    everything, _ = reference.attend(q, k, v, scale=0.5, causal=False)
    alone, _ = reference.attend_head(q[2, 0], k[2][0], v[2][0], scale=0.5, limits=[(0, 12), (0, 12)])
    assert np.array_equal(everything[2, 0], alone)


def test_an_empty_batch_has_empty_results() -> None:
    out, lse = reference.attend(np.zeros((0, 4, 1, 64)), [], [], scale=1)
    assert out.shape == (0, 4, 1, 64)
    assert lse.shape == (0, 4, 1)


def test_heads_that_cannot_be_shared_are_refused() -> None:
    q, kv = np.zeros((1, 3, 1, 4)), [np.zeros((2, 5, 4))]
    with pytest.raises(ValueError, match="3 query heads cannot share 2 KV heads"):
        reference.attend(q, kv, kv, scale=1)
    with pytest.raises(ValueError, match="batch of 1, k of 2"):
        reference.attend(q, kv * 2, kv, scale=1)
    with pytest.raises(ValueError, match="3 rows cannot be shared by 2 query tokens"):
        reference.attend_head(q[0, :, 0], kv[0][0], kv[0][0], scale=1, limits=[(0, 1), (0, 2)])
