# SPDX-License-Identifier: Apache-2.0
"""block_buffer: words and exponents against a shadow, reads and writes of the same place in one cycle among them."""

import cocotb
from clocked import cycles, rng, start
from shadow import Shadow


def out(signal):
    return int(signal.value) if signal.value.is_resolvable else None


@cocotb.test()
async def reads_give_what_was_written(dut):
    random = rng()
    start(dut)
    await cycles(dut)
    words, tops = Shadow(), Shadow()
    held = [None, None]
    for _ in range(2500):
        # Few places, so that they meet.
        addr, top_addr, r_addr, t_addr = (random.choice([0, 1, 7, 8, 1023, 1024, 2040, 2047]) for _ in range(4))
        top_addr, t_addr = top_addr >> 3, t_addr >> 3
        w, wt, r = random.random() < 0.5, random.random() < 0.5, random.random() < 0.7
        data, top = random.getrandbits(512), random.getrandbits(5)
        dut.w_valid.value, dut.w_addr.value, dut.w_data.value = w, addr, data
        dut.w_top_valid.value, dut.w_top_addr.value, dut.w_top.value = wt, top_addr, top
        dut.r_valid.value, dut.r_addr.value, dut.t_addr.value = r, r_addr, t_addr
        if r:
            held = words.read([r_addr]) + tops.read([r_addr >> 3])
        want_t = tops.read([t_addr])
        await cycles(dut)
        words.judge(held[:1], [out(dut.r_data)])
        tops.judge(held[1:] + want_t, [out(dut.r_top), out(dut.t_top)])
        if w:
            words.write(addr, data)
        if wt:
            tops.write(top_addr, top)
    assert words.judged > 500
    assert tops.judged > 500
