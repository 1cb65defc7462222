# SPDX-License-Identifier: Apache-2.0
"""row_scan: the largest exponent of a word with and without its upper half; Inf and NaN."""

import cocotb
import numpy as np
from clocked import cycles, rng, start

from tests.support.random_jobs import half


@cocotb.test()
async def words(dut):
    random = rng()
    start(dut)
    await cycles(dut)
    told = 0
    for case in range(1500):
        x = half(np.random.default_rng(case), 1, 32).view(np.uint16)[0].copy()
        if case % 5 == 0:
            x[random.randrange(32)] = random.choice([0x7C00, 0xFC00, 0x7E01, 0x7FFF])
        upper_is_padding, valid = random.random() < 0.5, random.random() < 0.9
        dut.s_data.value, dut.s_half.value = int.from_bytes(x.tobytes(), "little"), upper_is_padding
        dut.s_valid.value = valid
        if valid:
            exponents = (x[: 16 if upper_is_padding else 32] >> 10) & 31
            want = max(1, int(exponents.max())), int((exponents == 31).any())
            told += want[1]
        await cycles(dut)
        if valid or case:
            assert (int(dut.top.value), int(dut.nonfinite.value)) == want
    assert told > 100
