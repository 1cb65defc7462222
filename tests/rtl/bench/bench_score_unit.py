# SPDX-License-Identifier: Apache-2.0
"""score_unit: product, one rounding, clamping and weight for dots and shifts over their whole range."""

import cocotb
from bench_exp2 import expected as mantissa
from clocked import cycles, rng, signed, start, unsigned


def score(dot: int, scale: int, shift: int) -> tuple[int, bool]:
    product = dot * scale
    exact = product << shift if shift >= 0 else (product + (1 << (-shift - 1))) >> -shift
    clamped = max(-(2**47), min(2**47 - 1, exact))
    return clamped, clamped != exact


@cocotb.test()
async def whole_range(dut):
    random = rng()
    start(dut)
    cases = []
    for i in range(1500):
        bits = random.randint(1, 55)
        dot = signed(random.getrandbits(bits), bits) if i % 7 else random.choice([-(2**54), 2**54 - 1, 0, 1, -1])
        shift = random.randint(-310, 225) if i % 3 == 0 else random.randint(-60, 10)
        cases.append((dot, random.randint(2**23, 2**24 - 1), shift))
    dut.s_valid.value = 0
    await cycles(dut)
    results = []
    for dot, scale, shift in [*cases, *[(0, 2**23, 0)] * 7]:
        dut.s_dot.value, dut.s_scale.value, dut.s_shift.value = unsigned(dot, 55), scale, unsigned(shift, 10)
        dut.s_valid.value = 1
        await cycles(dut)
        results.append((dut.m_mantissa.value, dut.m_whole.value, dut.m_clamped.value))
    for case, got in zip(cases, results[6:], strict=False):
        value, clamped = score(*case)
        want = (mantissa(value & 0xFFFFFF), value >> 24, clamped)
        assert (int(got[0]), signed(int(got[1]), 24), bool(int(got[2]))) == want, case
