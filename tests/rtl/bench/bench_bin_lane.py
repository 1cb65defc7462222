# SPDX-License-Identifier: Apache-2.0
"""bin_lane: a sum cut at multiples of 32 under the new top, old bins moved by whole registers, no carries."""

import cocotb
from clocked import cycles, pack, rng, start, unpack, unsigned


def expected(total: int, place: int, down: int, old_down: int, old: list[int]) -> list[int]:
    moved = total << (place + 11)
    cut = [moved >> 64, moved >> 32 & 0xFFFFFFFF, moved & 0xFFFFFFFF]
    pieces, kept = [0] * down + cut, [0] * old_down + old
    return [unsigned(pieces[i] + kept[i], 50) for i in range(3)]


@cocotb.test()
async def cut_and_added(dut):
    random = rng()
    start(dut)
    dut.s_valid.value = 1
    cases, results = [], []
    for i in range(1000):
        total = random.randint(-(2**53), 2**53 - 1) if i % 5 else random.choice([0, -1, 1, -(2**53)])
        old = [random.getrandbits(50) for _ in range(3)]
        cases.append((total, random.randint(0, 31), random.randint(0, 3), random.randint(0, 3), old))
    for total, place, down, old_down, old in [*cases, cases[0], cases[0]]:
        dut.s_sum.value, dut.s_place.value = unsigned(total, 54), place
        dut.s_down.value, dut.s_old_down.value, dut.s_bins.value = down, old_down, pack(old, 50)
        await cycles(dut)
        results.append(dut.m_bins.value)
    for case, got in zip(cases, results[1:], strict=False):
        assert unpack(int(got), 50, 3) == expected(*case), case
