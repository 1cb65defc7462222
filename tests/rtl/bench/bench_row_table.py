# SPDX-License-Identifier: Apache-2.0
"""row_table: limits and shifts of rows are written one by one and read eight at once, of the job that is asked for."""

import cocotb
from clocked import cycles, rng, start, unpack
from shadow import Shadow


@cocotb.test()
async def groups_of_rows(dut):
    random = rng()
    start(dut)
    await cycles(dut)
    limits, shifts = Shadow(), Shadow()
    for step in range(2000):
        parity, row, other = (
            (step // 64 % 2, step % 64, step % 64) if step < 128 else [random.randrange(n) for n in (2, 64, 64)]
        )
        w, s = step < 128 or random.random() < 0.5, step < 128 or random.random() < 0.5
        low, high, shift = random.getrandbits(22), random.getrandbits(22), random.getrandbits(10)
        dut.w_parity.value, dut.w_limit_row.value, dut.w_shift_row.value = parity, row, other
        dut.w_low.value, dut.w_high.value, dut.w_limit_valid.value = low, high, w
        dut.w_shift.value, dut.w_shift_valid.value = shift, s
        r_parity, group = random.randrange(2), random.randrange(8)
        dut.r_parity.value, dut.r_group.value = r_parity, group
        rows = [(r_parity, group * 8 + r) for r in range(8)]
        want_limits, want_shifts = limits.read(rows), shifts.read(rows)
        await cycles(dut)
        if step >= 128:
            lows, highs = unpack(int(dut.r_low.value), 22, 8), unpack(int(dut.r_high.value), 22, 8)
            limits.judge(want_limits, [a | b << 22 for a, b in zip(lows, highs, strict=True)])
            shifts.judge(want_shifts, unpack(int(dut.r_shift.value), 10, 8))
        if w:
            limits.write((parity, row), low | high << 22)
        if s:
            shifts.write((parity, other), shift)
    assert limits.judged > 4000
