# SPDX-License-Identifier: Apache-2.0
"""The state that the HLS kernel leaves, against docs/arithmetic.md spelt out in Python integers: no width, no overflow.

One row and few tokens at a time: this form is meant to be read beside the text. Features of the contract are elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from nearkv_driver import regmap as rm
from nearkv_driver.exp2_table import exp2_table

from tests.support.jobs import Job, Segment, build, padded, scale_fields
from tests.support.kernels import kernel

Row = Sequence[float]
LANE_BITS = 23  # a block integer lies below 2**23


def block(row: Row, least: int) -> tuple[list[int], int]:
    """Integers at 2**(e - 23), where e is the least exponent with |x| < 2**e for the whole row."""
    exponent = max([least, *(math.frexp(x)[1] for x in row if x)])
    limit = 2**LANE_BITS - 1
    rounded = [math.floor(math.ldexp(x, LANE_BITS - exponent) + 0.5) for x in row]
    return [max(-limit, min(limit, x)) for x in rounded], exponent


def shift_round(x: int, places: int) -> int:
    return x << places if places >= 0 else (x + (1 << (-places - 1))) >> -places


def weight(score: int) -> tuple[int, int]:
    """(mantissa, floor): 2**(score / 2**24) = mantissa * 2**(floor - 24)."""
    base, slope = exp2_table()
    fraction = score % 2**24
    entry, rest = divmod(fraction, 2**14)
    return min(base[entry] + ((slope[entry] * rest + 2**13) >> 14), 2**25 - 1), score >> 24


def aligned(mantissa: int, below: int) -> int:
    return mantissa << 1 if below == 0 else shift_round(mantissa, 1 - below)


def tiles(q: Row, k: Sequence[Row], v: Sequence[Row], scale: float) -> Iterator[tuple[int, int, list[int], int]]:
    """(R, Rl, sums, sum of weights) of each 16 tokens."""
    c, ce = scale_fields(scale)
    qi, eq = block(q, rm.Q_EXPONENT_MIN)
    weights, exponents, values = [], [], []
    for key, value in zip(k, v, strict=True):
        ki, ek = block(key, rm.K_EXPONENT_MIN)
        dot = sum(a * b for a, b in zip(qi, ki, strict=True))
        score = shift_round(dot * c, eq - 23 + ek - 23 + ce)
        weights.append(weight(max(-(2**47), min(2**47 - 1, score))))
        vi, ev = block(value, rm.K_EXPONENT_MIN)
        values.append(vi)
        exponents.append(ev)
    for start in range(0, len(weights), 16):
        some = list(zip(weights, exponents, values, strict=True))[start : start + 16]
        r = max(whole + ev for (_, whole), ev, _ in some)
        rl = max(whole for (_, whole), _, _ in some)
        sums = [0] * len(q)
        for (mantissa, whole), ev, value in some:
            p = aligned(mantissa, r - whole - ev)
            sums = [x + p * y for x, y in zip(sums, value, strict=True)]
        yield r, rl, sums, sum(aligned(mantissa, rl - whole) for (mantissa, whole), _, _ in some)


def pieces(x: int, lowest_bit: int, top: int) -> list[tuple[int, int]]:
    """(bin, piece): the top one with the sign, two below of 32 bits."""
    y = shift_floor(x, lowest_bit - 32 * (top - 2))
    return [(top - 2, y % 2**32), (top - 1, (y >> 32) % 2**32), (top, y >> 64)]


def shift_floor(x: int, places: int) -> int:
    return x << places if places >= 0 else x >> -places


def state(entries: Sequence[tuple[int, int, list[int], int]], head_size: int) -> tuple[np.ndarray, list[int], int]:
    """O [3, d], L [3], T: pieces in bins T, T - 1, T - 2 of the largest T; what lies below is gone."""
    t = max((max(r, rl) + 5) >> 5 for r, rl, _, _ in entries)
    o, total = np.zeros((3, head_size), object), [0, 0, 0]
    for r, rl, sums, weight_sum in entries:
        for j, x in enumerate(sums):
            for at, piece in pieces(x, r - 48, (r + 5) >> 5):
                if t - at < 3:
                    o[t - at, j] += piece
        for at, piece in pieces(weight_sum, rl - 25, (rl + 5) >> 5):
            if t - at < 3:
                total[t - at] += piece
    return o, total, t


def cases(rng: np.random.Generator, d: int, n: int) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, float]]:
    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape)

    spread = 2.0 ** rng.integers(-24, 12, (n, d))
    return {
        "normal": (normal(d), normal(n, d), normal(n, d), d**-0.5),
        "peaked": (8 * normal(d), 8 * normal(n, d), normal(n, d), d**-0.5),
        "spread": (normal(d) * 2.0 ** rng.integers(-60, 4, d), normal(n, d) * spread, normal(n, d) * spread, 1.0),
        "saturating": (1e30 * normal(d), normal(n, d), normal(n, d), 1e3),
        "tiny": (1e-44 * normal(d), normal(n, d), 6e-8 * normal(n, d), 1e-30),
        "zero": (np.zeros(d), np.zeros((n, d)), np.zeros((n, d)), 1.0),
        "all ones in q": (np.full(d, float(np.nextafter(np.float32(2), 0))), normal(n, d), normal(n, d), d**-0.5),
    }


@pytest.mark.parametrize("head_size", rm.HEAD_SIZES)
@pytest.mark.parametrize("name", list(cases(np.random.default_rng(0), 2, 1)))
def test_state_of_one_row(name: str, head_size: int) -> None:
    rng = np.random.default_rng(head_size)
    n = int(rng.integers(1, 70))
    q, k, v, scale = cases(rng, head_size, n)[name]
    q, k, v = q.astype(np.float32), *(np.clip(x, -65504, 65504).astype(np.float16) for x in (k, v))
    image = build([Job(q[None], [(0, n)], scale, [Segment(0, k, v)], raw=True)])

    words = np.frombuffer(image.state(image.run(kernel("csim")), 0, "out_addr"), np.int64)
    d_pad = padded(head_size)
    found = words[: 3 * d_pad].reshape(3, d_pad)
    o, total, t = state(list(tiles(q.tolist(), k.tolist(), v.tolist(), scale)), head_size)

    assert words[3 * d_pad : 3 * d_pad + 4].tolist() == [*total, t]
    assert found[:, :head_size].tolist() == o.tolist()
    assert not found[:, head_size:].any()
