# SPDX-License-Identifier: Apache-2.0
"""query_buffer: halves written one by one are read as 8 rows x 32 lanes, of the job that is asked for."""

import cocotb
from clocked import cycles, rng, start, unpack
from shadow import Shadow


@cocotb.test()
async def groups_of_rows(dut):
    random = rng()
    start(dut)
    await cycles(dut)
    shadow, want = Shadow(), [None] * 16
    for step in range(2000):
        write, read = random.random() < 0.9, random.random() < 0.5
        row, chunk, half, parity = (
            random.randrange(64) & 0x1F,
            random.randrange(3),
            random.randrange(2),
            random.randrange(2),
        )
        if step < 768:
            # First everything once.
            write, parity, row, chunk, half = True, step // 384, step // 6 % 64 & 0x1F, step % 6 // 2, step % 2
        data = random.getrandbits(384)
        dut.w_valid.value, dut.w_parity.value, dut.w_row.value = write, parity, row
        dut.w_chunk.value, dut.w_half.value, dut.w_data.value = chunk, half, data
        r_parity, r_group, r_chunk = random.randrange(2), random.randrange(4), random.randrange(3)
        dut.r_valid.value, dut.r_parity.value = read, r_parity
        dut.r_group.value, dut.r_chunk.value = r_group, r_chunk
        if read:
            want = shadow.read([(r_parity, r_group * 8 + r, r_chunk, h) for r in range(8) for h in range(2)])
        await cycles(dut)
        if all(x is not None for x in want):
            shadow.judge(want, unpack(int(dut.r_data.value), 384, 16))
        if write:
            shadow.write((parity, row, chunk, half), data)
    assert shadow.judged > 4000
