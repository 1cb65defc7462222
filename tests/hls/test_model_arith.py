# SPDX-License-Identifier: Apache-2.0
"""Each step of the model's arithmetic against Python integers and fractions, which are exact by construction."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nearkv_driver.exp2_table import exp2_table
from nearkv_emulation import model_arith as arith
from nearkv_emulation.model_state import rounded

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=400)
EDGES = (0, 1, -1, 2, -2)


def signed(bits: int) -> st.SearchStrategy[int]:
    """Integers of `bits` bits with sign, small ones and the ends of the range among them."""
    top = 2 ** (bits - 1)
    near_powers = st.builds(
        lambda e, d, s: s * (2**e + d), st.integers(0, bits - 2), st.integers(-2, 2), st.sampled_from([1, -1])
    )
    return st.one_of(st.integers(-top, top - 1), near_powers.filter(lambda x: -top <= x < top))


def array(x: int) -> np.ndarray:
    return np.array([x], np.int64)


def floor_half_up(x: Fraction) -> int:
    return (x + Fraction(1, 2)).__floor__()


@FIXED
@given(signed(55), st.integers(2**23, 2**24 - 1), st.one_of(st.integers(-330, 230), st.integers(-90, 10)))
def test_a_score_is_the_product_shifted_once_and_clamped(dot: int, mantissa: int, shift: int) -> None:
    exact = floor_half_up(Fraction(dot * mantissa) * Fraction(2) ** shift)
    score, clamped = arith.scaled_scores(array(dot), mantissa, array(shift))
    expected = min(max(exact, -(2**47)), 2**47 - 1)
    assert (score[0], clamped[0]) == (expected, expected != exact)


@pytest.mark.parametrize("shift", range(-80, 60))
def test_a_score_is_exact_around_the_clamp(shift: int) -> None:
    """Products within one unit of the two limits, and of the halves that round to them, at every shift."""
    mantissa = 2**23 + 1
    for limit in (2**47, -(2**47)):
        centre = Fraction(limit) / Fraction(2) ** shift / mantissa
        for dot in range(centre.__floor__() - 3, centre.__floor__() + 4):
            if abs(dot) < 2**54:
                exact = floor_half_up(Fraction(dot * mantissa) * Fraction(2) ** shift)
                expected = min(max(exact, -(2**47)), 2**47 - 1)
                score, clamped = arith.scaled_scores(array(dot), mantissa, array(shift))
                assert (score[0], clamped[0]) == (expected, expected != exact)


@FIXED
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_block_integers_of_fp32_rows(row: list[float]) -> None:
    integers, exponent = arith.block_integers(np.array([row], np.float64), -125)
    e = int(exponent[0])
    top = max(abs(Fraction(x)) for x in row)
    assert top < Fraction(2) ** e
    assert e == -125 or top >= Fraction(2) ** (e - 1)
    limit = 2**23 - 1
    expected = [min(max(floor_half_up(Fraction(x) / Fraction(2) ** (e - 23)), -limit), limit) for x in row]
    assert integers[0].tolist() == expected


def test_block_integers_of_every_fp16_value() -> None:
    """Alone in its row each finite value is exact."""
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)].astype(np.float64)
    integers, exponent = arith.block_integers(x[:, None], -13)
    assert np.array_equal(np.ldexp(integers[:, 0].astype(np.float64), exponent - 23), x)
    assert exponent.min() == -13
    assert exponent.max() == 16


def test_products_are_exact_at_their_widest() -> None:
    rng = np.random.default_rng(1)
    for bits, inner in ((24, 256), (27, 16)):
        top = 2 ** (bits - 1)
        a = rng.choice([-top, top - 1, 0, 1, -1, *rng.integers(-top, top, 20)], (5, inner))
        b = rng.choice(
            [-arith.SIGNIFICAND_MAX, arith.SIGNIFICAND_MAX, *rng.integers(-(2**23) + 1, 2**23, 20)], (inner, 7)
        )
        exact = a.astype(object) @ b.astype(object)
        assert np.array_equal(arith.exact_matmul(a, b, bits), exact.astype(np.int64))


@FIXED
@given(signed(48))
def test_a_weight_follows_the_table(score: int) -> None:
    base, slope = exp2_table()
    fraction = score % 2**24
    i, r = fraction >> 14, fraction & 0x3FFF
    p = min(base[i] + floor_half_up(Fraction(slope[i] * r, 2**14)), 2**25 - 1)
    mantissa, whole = arith.weights(array(score))
    assert (mantissa[0], whole[0]) == (p, score // 2**24)


def test_weights_are_within_their_stated_error() -> None:
    """2**f over [0, 1) at 2**18 points; docs/arithmetic.md gives the figure."""
    f = np.arange(0, 2**24, 2**6)
    mantissa, _ = arith.weights(f)
    error = np.abs(mantissa / np.exp2(f / 2**24) / 2**24 - 1).max()
    assert error < 2**-23
    assert mantissa.min() >= 2**24
    assert mantissa.max() < 2**25


@pytest.mark.parametrize("below", [*range(0, 45), 60, 1000, 2**24])
def test_alignment_rounds_half_up(below: int) -> None:
    for p in (2**24, 2**24 + 1, 2**25 - 1, 0x1555555, 3 * 2**23):
        expected = floor_half_up(Fraction(2 * p, 2**below) if below < 100 else Fraction(0))
        assert arith.aligned(array(p), array(below))[0] == expected


@FIXED
@given(signed(54), st.integers(11, 42))
def test_pieces_of_a_tile_sum_are_the_number(x: int, shift: int) -> None:
    top, middle, bottom = (int(piece[0]) for piece in arith.pieces(array(x), array(shift)))
    assert (top << 64) + (middle << 32) + bottom == x << shift
    assert 0 <= middle < 2**32
    assert 0 <= bottom < 2**32
    assert abs(top) <= 2**32


@FIXED
@given(st.integers(0, 2**30 - 1), st.integers(34, 65))
def test_pieces_of_a_weight_sum_are_the_number(w: int, shift: int) -> None:
    top, middle, bottom = (int(piece[0]) for piece in arith.pieces(array(w), array(shift)))
    assert (top << 64) + (middle << 32) + bottom == w << shift
    assert 0 <= middle < 2**32
    assert bottom == 0


def nearest_fp32(x: Fraction) -> np.float32:
    """Round to nearest even by comparing with the neighbours, without trusting any conversion."""
    guess = np.float32(float(x))
    candidates = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
    even = {float(c): int(c.view(np.uint32)) & 1 for c in candidates}
    return np.float32(min(even, key=lambda c: (abs(Fraction(c) - x), even[c])))


@FIXED
@given(signed(50), signed(50), signed(50))
def test_output_rounds_three_bins_once(b0: int, b1: int, b2: int) -> None:
    exact = Fraction(b0) + Fraction(b1, 2**32) + Fraction(b2, 2**64)
    assert rounded(array(b0), array(b1), array(b2))[0] == nearest_fp32(exact)


@FIXED
@given(st.integers(2**23, 2**24 - 1), st.integers(-40, 50), st.sampled_from([1, -1]), st.integers(-2, 2))
def test_output_decides_ties_by_the_last_bit(m: int, e: int, sign: int, nudge: int) -> None:
    """Halfway between two FP32 numbers, and one unit of the lowest bin beside it."""
    exact = sign * (2 * m + 1) * Fraction(2) ** (e - 25) + Fraction(nudge, 2**64)
    if exact.denominator > 2**64:
        return
    units = int(exact * 2**64)
    b0, b1, b2 = units >> 64, units >> 32 & 0xFFFFFFFF, units & 0xFFFFFFFF
    if abs(b0) < 2**49:
        assert rounded(array(b0), array(b1), array(b2))[0] == nearest_fp32(exact)


def test_output_zero_is_positive() -> None:
    zero = rounded(array(1), array(-(2**32)), array(0))
    assert zero.view(np.uint32)[0] == 0
