# SPDX-License-Identifier: Apache-2.0
"""weight_buffer: four rows are written at a time, eight read; the two read ports do not disturb each other."""

import cocotb
from clocked import cycles, pack, rng, start, unpack
from shadow import Shadow


@cocotb.test()
async def eight_rows(dut):
    random = rng()
    start(dut)
    await cycles(dut)
    shadow, held = Shadow(), [None] * 8
    for step in range(2000):
        places = [0, 1, 127, 128, 254, 255]
        addr, upper, w = random.choice(places), random.randrange(2), random.random() < 0.6
        r, r_addr, t_addr = random.random() < 0.6, random.choice(places), random.choice(places)
        if step < 12:
            addr, upper, w = places[step // 2], step % 2, True
        rows = [(random.getrandbits(25), random.getrandbits(24), random.randrange(2)) for _ in range(4)]
        dut.w_valid.value, dut.w_upper.value, dut.w_addr.value = w, upper, addr
        dut.w_mantissa.value, dut.w_whole.value = pack([x[0] for x in rows], 25), pack([x[1] for x in rows], 24)
        dut.w_visible.value = pack([x[2] for x in rows], 1)
        dut.r_valid.value, dut.r_addr.value, dut.t_addr.value = r, r_addr, t_addr
        if r:
            held = shadow.read([(r_addr, row) for row in range(8)])
        tops = shadow.read([(t_addr, row) for row in range(8)])
        await cycles(dut)
        if step >= 12 and None not in held:
            mantissas, wholes = unpack(int(dut.r_mantissa.value), 25, 8), unpack(int(dut.r_whole.value), 25, 8)
            shadow.judge(held, [m << 25 | whole for m, whole in zip(mantissas, wholes, strict=True)])
            want = [x & 0x1FFFFFF for x in tops]
            shadow.judge(want, unpack(int(dut.t_whole.value), 25, 8))
        if w:
            for i, (mantissa, whole, visible) in enumerate(rows):
                shadow.write((addr, 4 * upper + i), mantissa << 25 | visible << 24 | whole)
    assert shadow.judged > 4000
