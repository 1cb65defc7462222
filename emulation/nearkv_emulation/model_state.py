# SPDX-License-Identifier: Apache-2.0
"""The state (O, L, T) that rows accumulate: bins, their bytes, and rounding to the FP32 output.

Which bits survive depends on the highest tile that a row has seen and on nothing else, so tiles may come in any order.
"""

from __future__ import annotations

import numpy as np
from nearkv_driver.regmap import BIN_BITS, BIN_REGISTER_BITS, BINS, EMPTY_T, STATE_T_LIMIT, WORD_BYTES, Kind, Status
from numpy.typing import NDArray

from nearkv_emulation.model_arith import TILE_LSB, WEIGHT_LSB, Ints, bin_of, pieces
from nearkv_emulation.model_memory import Bytes, Fault

REGISTER_HALF = 2 ** (BIN_REGISTER_BITS - 1)


def _ceil_word(nbytes: int) -> int:
    return nbytes + -nbytes % WORD_BYTES


def state_nbytes(rows: int, d_pad: int) -> int:
    """Bytes of a stored state: O int64 [rows, 3, d_pad], then (L in 3 bins, T) int64 [rows, 4], padded to a word."""
    return rows * BINS * d_pad * 8 + _ceil_word(rows * (BINS + 1) * 8)


def output_nbytes(rows: int, d_pad: int) -> int:
    """Bytes of an output: O FP32 [rows, d_pad], then (L FP32, T int32) per row, padded to a word."""
    return rows * d_pad * 4 + _ceil_word(rows * 8)


class State:
    """O int64 [rows, 3, d], L int64 [rows, 3] in bins T, T - 1, T - 2, and T int64 [rows]."""

    def __init__(self, rows: int, head_size: int) -> None:
        self.o = np.zeros((rows, BINS, head_size), np.int64)
        self.l = np.zeros((rows, BINS), np.int64)
        self.t = np.full(rows, EMPTY_T, np.int64)

    def add(self, seen: NDArray[np.bool_], r: Ints, rl: Ints, x: Ints, w: Ints) -> None:
        """Adds tiles: exponents r, rl [rows, tiles], sums x [rows, tiles, d] and w [rows, tiles].

        A tile that is not `seen` by a row counts for nothing.
        """
        own = np.where(seen, bin_of(np.maximum(r, rl)), EMPTY_T).max(axis=1, initial=EMPTY_T)
        self._raise(np.maximum(self.t, own))
        _collect(self.o, x, self.t, r, TILE_LSB, seen)
        _collect(self.l[:, :, None], w[:, :, None], self.t, rl, WEIGHT_LSB, seen)

    def _raise(self, t: Ints) -> None:
        """Moves bins down by whole registers to the new T of each row; what falls below the third is gone."""
        up = t - self.t
        for bins in (self.o, self.l):
            for step in (1, 2, 3):
                rows = (up == step) if step < BINS else (up >= step)
                bins[rows, step:] = bins[rows, : BINS - step]
                bins[rows, :step] = 0
        self.t = t

    def wrapped(self) -> tuple[Ints, Ints]:
        """(O, L) as the 50-bit registers hold them."""
        return _wrap(self.o), _wrap(self.l)


def _wrap(bins: Ints) -> Ints:
    wrapped: Ints = (bins + REGISTER_HALF) % (2 * REGISTER_HALF) - REGISTER_HALF
    return wrapped


def _collect(bins: Ints, x: Ints, t: Ints, exponent: Ints, lsb: int, seen: NDArray[np.bool_]) -> None:
    """Adds x [rows, tiles, n] * 2**(exponent - lsb) to bins [rows, 3, n], whose first is bin t [rows]."""
    top = bin_of(exponent)
    shift = exponent - lsb - BIN_BITS * (top - (BINS - 1))
    cut = pieces(x, shift[:, :, None])
    down = t[:, None] - top
    for offset in range(BINS):
        here = (seen & (down == offset))[:, :, None]
        if here.any():
            for i, piece in enumerate(cut[: BINS - offset]):
                bins[:, offset + i] += np.where(here, piece, 0).sum(axis=1)


def state_bytes(state: State, d_pad: int) -> Bytes:
    """The state as it is stored."""
    rows, _, head_size = state.o.shape
    o = np.zeros((rows, BINS, d_pad), np.int64)
    o[:, :, :head_size], bins = state.wrapped()
    data = np.zeros(state_nbytes(rows, d_pad), np.uint8)
    data[: o.nbytes] = o.reshape(-1).view(np.uint8)
    last = np.concatenate([bins, state.t[:, None]], axis=1)
    data[o.nbytes : o.nbytes + last.nbytes] = last.reshape(-1).view(np.uint8)
    return data


def state_from_bytes(data: Bytes, rows: int, head_size: int, d_pad: int) -> State:
    """The stored state; padding is ignored. Raises Fault (bad_state) at the first row that cannot be a state."""
    words = data[: len(data) // 8 * 8].copy().view(np.int64)
    o_words = rows * BINS * d_pad
    state = State(rows, head_size)
    state.o = words[:o_words].reshape(rows, BINS, d_pad)[:, :, :head_size].copy()
    last = words[o_words : o_words + rows * (BINS + 1)].reshape(rows, BINS + 1)
    state.l, state.t = last[:, :BINS].copy(), last[:, BINS].copy()

    bins = np.concatenate([state.o.reshape(rows, -1), state.l], axis=1)
    fits = ((bins >= -REGISTER_HALF) & (bins < REGISTER_HALF)).all(axis=1)
    filled = fits & (state.t > -STATE_T_LIMIT) & (state.t < STATE_T_LIMIT)
    empty = (state.t == EMPTY_T) & (bins == 0).all(axis=1)
    bad = np.flatnonzero(~(filled | empty))
    if len(bad):
        raise Fault(Status.BAD_STATE, kind=Kind.STATE, position=int(bad[0]))
    return state


def output_bytes(state: State, d_pad: int) -> Bytes:
    """The rounded output as it is written."""
    rows, _, head_size = state.o.shape
    o_bins, l_bins = state.wrapped()
    o = np.zeros((rows, d_pad), np.float32)
    o[:, :head_size] = rounded(o_bins[:, 0], o_bins[:, 1], o_bins[:, 2])
    data = np.zeros(output_nbytes(rows, d_pad), np.uint8)
    data[: o.nbytes] = o.reshape(-1).view(np.uint8)
    last = np.empty((rows, 2), np.int32)
    last[:, 0] = rounded(l_bins[:, 0], l_bins[:, 1], l_bins[:, 2]).view(np.int32)
    last[:, 1] = state.t
    data[o.nbytes : o.nbytes + last.nbytes] = last.reshape(-1).view(np.uint8)
    return data


def rounded(b0: Ints, b1: Ints, b2: Ints) -> NDArray[np.float32]:
    """b0 + b1 * 2**-32 + b2 * 2**-64 as FP32, rounded once to nearest even. Bins have 50 bits with sign."""
    # Carry upwards: the number is high * 2**64 + low, low unsigned.
    b1 = b1 + (b2 >> BIN_BITS)
    high = b0 + (b1 >> BIN_BITS)
    mask = np.int64(2**BIN_BITS - 1)
    low = ((b1 & mask).astype(np.uint64) << np.uint64(BIN_BITS)) | (b2 & mask).astype(np.uint64)
    negative = high < 0
    # -(high, low) in two's complement over both words.
    high = np.where(negative, ~high + (low == 0), high).astype(np.uint64)
    low = np.where(negative, ~low + np.uint64(1), low)

    # Shift until the highest bit of `high` is set; a number that is zero stays zero.
    exponent = np.full(high.shape, 63, np.int64)
    for step in (64, 32, 16, 8, 4, 2, 1):
        short = high == 0 if step == 64 else (high >> np.uint64(64 - step)) == 0
        if step == 64:
            moved = low, np.zeros_like(low)
        else:
            moved = (high << np.uint64(step)) | (low >> np.uint64(64 - step)), low << np.uint64(step)
        high, low = np.where(short, moved[0], high), np.where(short, moved[1], low)
        exponent -= np.where(short, step, 0)

    kept, rest, half = high >> np.uint64(40), high & np.uint64(2**40 - 1), np.uint64(2**39)
    up = (rest > half) | ((rest == half) & ((low > 0) | (kept & np.uint64(1) == 1)))
    magnitude = np.ldexp((kept + up).astype(np.float64), exponent - 23).astype(np.float32)
    signed: NDArray[np.float32] = np.where(negative, -magnitude, magnitude)
    return signed
