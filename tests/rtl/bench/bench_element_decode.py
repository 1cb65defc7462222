# SPDX-License-Identifier: Apache-2.0
"""element_decode: FP16 of every exponent at every row exponent to 24-bit integers; padding and absent rows are zero."""

import math

import cocotb
import numpy as np
from clocked import cycles, rng, signed, start, unpack


def expected(word: int, top: int) -> int:
    value = float(np.uint16(word).view(np.float16))
    return math.floor(math.ldexp(value, 23 - (top - 14)) + 0.5)


@cocotb.test()
async def integers_at_the_rows_exponent(dut):
    random = rng()
    start(dut)
    dut.s_valid.value = 1
    cases, results = [], []
    for i in range(400):
        top = random.randint(1, 30)
        words = [random.getrandbits(1) << 15 | random.randint(0, top) << 10 | random.getrandbits(10) for _ in range(32)]
        cases.append((words, top, i % 10 != 0, i % 3 == 0))
    for words, top, present, pad in [*cases, cases[0], cases[0]]:
        dut.s_data.value = sum(word << (16 * i) for i, word in enumerate(words))
        dut.s_top.value, dut.s_present.value, dut.s_pad.value = top, present, pad
        await cycles(dut)
        results.append(dut.m_data.value)
    for (words, top, present, pad), got in zip(cases, results[1:], strict=False):
        want = [expected(w, top) if present and not (pad and i >= 16) else 0 for i, w in enumerate(words)]
        assert [signed(x, 24) for x in unpack(int(got), 24, 32)] == want
