# SPDX-License-Identifier: Apache-2.0
"""float_convert: rounded once to nearest even, against exact fractions; ties, carries, signs, zero."""

from fractions import Fraction

import cocotb
from clocked import cycles, pack, rng, start


def expected(bins: list[int]) -> int:
    """FP32 bits of b0 + b1 / 2^32 + b2 / 2^64."""
    value = Fraction(bins[0]) + Fraction(bins[1], 2**32) + Fraction(bins[2], 2**64)
    if value == 0:
        return 0
    sign, value = (1, -value) if value < 0 else (0, value)
    exponent = 0
    while value >= 2:
        value /= 2
        exponent += 1
    while value < 1:
        value *= 2
        exponent -= 1
    mantissa = round(value * 2**23)  # Python rounds halves to even
    if mantissa == 2**24:
        mantissa, exponent = 2**23, exponent + 1
    return sign << 31 | (exponent + 127) << 23 | mantissa - 2**23


@cocotb.test()
async def nearest_even(dut):
    random = rng()
    start(dut)
    cases = [
        [0, 0, 0],
        [0, 0, 1],
        [0, 0, -1],
        [-1, 2**32, 0],
        [1 << 24, 1 << 31, 0],
        [1, 128 << 1, 0],
        [2**49 - 1, -1, -1],
        [-(2**49), 0, 0],
    ]
    for kept in (2**23, 2**23 + 1, 2**24 - 1):
        cases += [[kept, 2**31, low] for low in (-1, 0, 1)]
        cases += [[-kept, -(2**31), low] for low in (-1, 0, 1)]
    for _ in range(800):
        cases.append(
            [random.randint(-(1 << random.randint(0, 49)), (1 << random.randint(0, 49)) - 1) for _ in range(3)]
        )
    results = []
    for bins in [*cases, *[[0, 0, 0]] * 5]:
        dut.s_bins.value = pack(bins, 50)
        await cycles(dut)
        results.append(dut.m_float.value)
    for bins, got in zip(cases, results[4:], strict=False):
        assert int(got) == expected(bins), bins
