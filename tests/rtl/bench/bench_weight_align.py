# SPDX-License-Identifier: Apache-2.0
"""weight_align: 26 bits at the tile's top, rounded half up, for every distance including the whole range of scores."""

import cocotb
from clocked import cycles, rng, start, unsigned


def expected(mantissa: int, below: int) -> int:
    return (2 * mantissa + (1 << below >> 1)) >> below


@cocotb.test()
async def every_distance(dut):
    random = rng()
    start(dut)
    dut.s_valid.value = 1
    cases, results = [], []
    for i in range(600):
        below = i % 40 if i < 400 else random.choice([2**24 - 1, 2**24 + 28, 2**20])
        place = random.randint(-(2**23), 2**23 - 1 - min(below, 2**23)) if below < 2**23 else -(2**23)
        cases.append((random.randint(2**24, 2**25 - 1), place, place + below, i % 11 != 0))
    for mantissa, place, top, visible in [*cases, cases[0], cases[0]]:
        dut.s_mantissa.value, dut.s_visible.value = mantissa, visible
        dut.s_place.value, dut.s_top.value = unsigned(place, 25), unsigned(top, 25)
        await cycles(dut)
        results.append(dut.m_weight.value)
    for (mantissa, place, top, visible), got in zip(cases, results[1:], strict=False):
        assert int(got) == (expected(mantissa, top - place) if visible else 0), (mantissa, top - place)
