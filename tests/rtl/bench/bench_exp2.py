# SPDX-License-Identifier: Apache-2.0
"""exp2: every table entry at both ends and in between; monotone; saturated at the top."""

import cocotb
from clocked import cycles, rng, start
from nearkv_driver.exp2_table import exp2_table

BASE, SLOPE = exp2_table()


def expected(fraction: int) -> int:
    entry, rest = fraction >> 14, fraction & 16383
    return min(BASE[entry] + ((SLOPE[entry] * rest + 8192) >> 14), 2**25 - 1)


@cocotb.test()
async def table_and_chord(dut):
    random = rng()
    start(dut)
    inputs = sorted(
        {i << 14 for i in range(1024)}
        | {(i << 14) + 16383 for i in range(1024)}
        | {2**24 - 1 - i for i in range(8)}
        | {random.getrandbits(24) for _ in range(1000)}
    )
    results = []
    for fraction in [*inputs, 0, 0, 0]:
        dut.fraction.value = fraction
        await cycles(dut)
        results.append(dut.mantissa.value)
    got = [int(value) for value in results[2 : 2 + len(inputs)]]
    assert got == [expected(fraction) for fraction in inputs]
    assert got == sorted(got)
