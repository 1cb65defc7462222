# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the kernel as pure functions on NumPy integers, step by step as in docs/arithmetic.md.

Knows nothing of memory, descriptors or rows that wait for each other. Every function is exact: where 64 bits would not
hold a value, it is split, and where BLAS is used, no partial sum needs more than the 53 bits of a float64.
"""

from __future__ import annotations

import numpy as np
from nearkv_driver.exp2_table import exp2_table
from nearkv_driver.regmap import (
    ALIGNED_BITS,
    BIN_BITS,
    SCORE_BITS,
    SCORE_FRACTION_BITS,
    SIGNIFICAND_BITS,
    WEIGHT_FRACTION_BITS,
    WEIGHT_TABLE_BITS,
)
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SIGNIFICAND_MAX = 2 ** (SIGNIFICAND_BITS - 1) - 1
SCORE_MAX = 2 ** (SCORE_BITS - 1) - 1
SCORE_MIN = -(2 ** (SCORE_BITS - 1))
PIECE_MASK = 2**BIN_BITS - 1
# A tile's sum has its lowest bit at 2**(R - TILE_LSB), its sum of weights at 2**(Rl - WEIGHT_LSB).
TILE_LSB = ALIGNED_BITS - 1 + SIGNIFICAND_BITS - 1
WEIGHT_LSB = ALIGNED_BITS - 1
# From the exponent of a tile to the highest bit of its sum: 16 products of values below 2**(R + 1).
HEADROOM = 5


def block_integers(rows: Floats, least: int) -> tuple[Ints, Ints]:
    """Rows [n, d] as integers [n, d] and exponents e [n]; value = integer * 2**(e - 23), rounded half up.

    e is the smallest with max|x| < 2**e, at least `least`.
    """
    if rows.shape[0] == 0:
        return np.zeros(rows.shape, np.int64), np.zeros(0, np.int64)
    largest = np.abs(rows).max(axis=1)
    # frexp calls the exponent of zero 0; a row of zeros has the least one.
    exponent = np.where(largest > 0, np.maximum(np.frexp(largest)[1], least), least).astype(np.int64)
    step = np.ldexp(1.0, SIGNIFICAND_BITS - 1 - exponent)[:, None]
    # Exact: rows hold at most 24 significant bits, so the sum with 0.5 needs rounding only where floor ignores it.
    integers = np.floor(rows * step + 0.5)
    return np.clip(integers, -SIGNIFICAND_MAX, SIGNIFICAND_MAX).astype(np.int64), exponent


def exact_matmul(a: Ints, b: Ints, a_bits: int) -> Ints:
    """a @ b for |b| < 2**23 and a of `a_bits` bits with sign, as two float64 products of the halves of a."""
    low_bits = a_bits // 2
    high, low = a >> low_bits, a & ((1 << low_bits) - 1)
    wide = b.astype(np.float64)
    top: Ints = (high.astype(np.float64) @ wide).astype(np.int64)
    return (top << low_bits) + (low.astype(np.float64) @ wide).astype(np.int64)


def scaled_scores(dot: Ints, mantissa: int, shift: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """dot * mantissa * 2**shift, rounded half up, clamped to 48 bits; and where it was clamped.

    |dot| < 2**54, mantissa < 2**24: the product has 79 bits and is kept as high * 2**24 + low, low unsigned.
    """
    low_product = (dot & 0xFFFFFF) * mantissa
    high = (dot >> 24) * mantissa + (low_product >> 24)
    low = low_product & 0xFFFFFF

    def bounded(x: Ints, left: Ints) -> Ints:
        """x * 2**left where |x * 2**left| <= 2**52, else something of the same sign beyond the 48 bits."""
        bound = np.int64(1) << (52 - left)
        return np.clip(x, -bound, bound) << left

    # Left: a product of 2**49 or more is beyond 48 bits whatever the shift; so is anything but zero from 48 on.
    left = np.clip(shift, 0, 48)
    to_left = bounded((np.clip(high, -(2**25), 2**25) << 24) + low, left)
    # Right by 1 to 24: the low part is rounded, and carries into the high part by the addition.
    right = np.clip(-shift, 1, 24)
    to_right = bounded(high, 24 - right) + ((low + (np.int64(1) << (right - 1))) >> right)
    # Right by more: the low part lies below the bit that rounds, and cannot change the floor.
    far = np.clip(-shift - 24, 1, 62)
    to_far = (high + (np.int64(1) << (far - 1))) >> far

    exact = np.where(shift >= 0, to_left, np.where(shift >= -24, to_right, to_far))
    score = np.clip(exact, SCORE_MIN, SCORE_MAX)
    return score, score != exact


def weights(score: Ints) -> tuple[Ints, Ints]:
    """(P, I) of scores; weight = P * 2**(I - 24) with P in [2**24, 2**25)."""
    base, slope = (np.array(column, np.int64) for column in exp2_table())
    rest_bits = SCORE_FRACTION_BITS - WEIGHT_TABLE_BITS
    fraction = score & ((1 << SCORE_FRACTION_BITS) - 1)
    entry, rest = fraction >> rest_bits, fraction & ((1 << rest_bits) - 1)
    mantissa = base[entry] + ((slope[entry] * rest + (1 << (rest_bits - 1))) >> rest_bits)
    return np.clip(mantissa, 0, 2 ** (WEIGHT_FRACTION_BITS + 1) - 1), score >> SCORE_FRACTION_BITS


def aligned(p: Ints, below: Ints) -> Ints:
    """Weights moved to 26 bits at a point `below` >= 0 binary places above their own, rounded half up."""
    # P has 25 bits: one place is gained at below = 0, none lost at 1. From 27 places on everything rounds to zero.
    right = np.clip(below - 1, 0, 40)
    half = (np.int64(1) << right) >> 1
    return np.where(below == 0, p << 1, (p + half) >> right)


def bin_of(exponent: Ints) -> Ints:
    """The top bin of a tile whose exponent (R or Rl) is given."""
    return (exponent + HEADROOM) >> 5


def pieces(x: Ints, shift: Ints) -> tuple[Ints, Ints, Ints]:
    """x * 2**shift cut into its top piece (with sign, from bit 64 up) and two unsigned pieces of 32 bits below.

    11 <= shift <= 65, and the result below 2**95 in magnitude, which the choice of the top bin guarantees.
    """
    short = shift < BIN_BITS
    bottom = np.where(short, (x << np.where(short, shift, 0)) & PIECE_MASK, 0)
    above = np.where(short, x >> np.where(short, BIN_BITS - shift, 0), x << np.where(short, 0, shift - BIN_BITS))
    return above >> BIN_BITS, above & PIECE_MASK, bottom
