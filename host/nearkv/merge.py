# SPDX-License-Identifier: Apache-2.0
"""From what cards accumulate to attention output: division, log-sum-exp, and the exact merge of states. Pure NumPy.

A state holds three bins per value, in units of 2**(32 (T - i)) for bin i (docs/arithmetic.md). States of the same row
from several cards merge as integers: bins of equal absolute position add up, those below the highest T - 2 drop out.
That is what one card would have accumulated, so a split over cards changes no bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from nearkv_driver.regmap import BIN_BITS, BINS, EMPTY_T
from numpy.typing import NDArray

_MASK = (1 << BIN_BITS) - 1


@dataclass(frozen=True, eq=False)
class RawState:
    """Rows of integer state: o [rows, 3, d], l [rows, 3], both int64, bin T first; t [rows], `EMPTY_T` for no token."""

    o: NDArray[np.int64]
    l: NDArray[np.int64]  # noqa: E741  the name that the arithmetic gives it
    t: NDArray[np.int32]


def outputs(
    o: NDArray[np.float32],
    l: NDArray[np.float32],  # noqa: E741
    t: NDArray[np.int32],
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """(O [..., d], L [...], T [...]) -> (output FP32, log-sum-exp FP64); an empty row gives zeros and -inf."""
    seen = l > 0
    divisor: NDArray[np.float32] = np.where(seen, l, np.float32(1))
    out: NDArray[np.float32] = o / divisor[..., None]
    lse: NDArray[np.float64] = (np.log2(divisor.astype(np.float64)) + BIN_BITS * t.astype(np.float64)) * np.log(2.0)
    lse[~seen] = -np.inf
    return out, lse


def merge_states(states: Sequence[RawState]) -> RawState:
    """One state for the tokens of all; rows must be the same in each."""
    if not states:
        raise ValueError("nothing to merge: give at least one state")
    shapes = {s.o.shape for s in states}
    if len(shapes) > 1:
        raise ValueError(f"states of different rows: {sorted(shapes)}")
    top = np.maximum.reduce([s.t for s in states])
    o, l = np.zeros_like(states[0].o), np.zeros_like(states[0].l)  # noqa: E741
    for s in states:
        down = np.where(s.t == EMPTY_T, BINS, top.astype(np.int64) - s.t)
        for i in range(BINS):
            for j in range(i, BINS):  # bin i of this state lands in bin j of the merged one
                rows = down == j - i
                o[rows, j] += s.o[rows, i]
                l[rows, j] += s.l[rows, i]
    return RawState(o, l, top)


def round_state(state: RawState) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(O [rows, d], L [rows]) in units of 2**(32 T), rounded once to nearest even, as the kernel writes them."""
    return _round(state.o[:, 0], state.o[:, 1], state.o[:, 2]), _round(state.l[:, 0], state.l[:, 1], state.l[:, 2])


def _round(b0: NDArray[np.int64], b1: NDArray[np.int64], b2: NDArray[np.int64]) -> NDArray[np.float32]:
    """b0 + b1 2**-32 + b2 2**-64 as FP32. A 64-bit integer that holds more than 26 leading bits and, in its lowest bit,
    whether anything below was not zero ("round to odd") converts with a single rounding."""
    b0, b1, b2 = _carry(b0, b1, b2)
    negative = b0 < 0
    n0, n1, n2 = _carry(-b0, -b1, -b2)
    b0, b1, b2 = (np.where(negative, n, b) for n, b in ((n0, b0), (n1, b1), (n2, b2)))
    wide = b0 >= 1 << 29  # below 2**51
    some = ~wide & ((b0 > 0) | (b1 >= 1 << 29))
    low = (b1 << BIN_BITS) | b2
    middle = (b0 << BIN_BITS) | b1 | (b2 != 0)
    high = (b0 << 10) | (b1 >> 22) | (((b1 & ((1 << 22) - 1)) | b2) != 0)
    odd = np.where(wide, high, np.where(some, middle, low))
    scale = np.where(wide, np.float32(2.0**-10), np.where(some, np.float32(2.0**-32), np.float32(2.0**-64)))
    out = odd.astype(np.float32) * scale
    return np.where(negative, -out, out)


def _carry(
    b0: NDArray[np.int64], b1: NDArray[np.int64], b2: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The same number with b1 and b2 in [0, 2**32)."""
    b1 = b1 + (b2 >> BIN_BITS)
    return b0 + (b1 >> BIN_BITS), b1 & _MASK, b2 & _MASK
