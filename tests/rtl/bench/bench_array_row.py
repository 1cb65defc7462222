# SPDX-License-Identifier: Apache-2.0
"""array_row: dots over several words, tile sums over 16 tokens, both at the ends of their ranges and interleaved."""

import cocotb
from clocked import cycles, pack, rng, signed, start, unpack

TOP = 2**23 - 1


async def issue(dut, is_v, first, last, elements, query=None, weight=0):
    dut.s_valid.value, dut.s_is_v.value, dut.s_first.value, dut.s_last.value = 1, is_v, first, last
    dut.s_elements.value = pack(elements, 24)
    dut.s_query.value = pack(query or [0] * 32, 24)
    dut.s_weight.value = weight
    await cycles(dut)
    dut.s_valid.value = 0


@cocotb.test()
async def dots_and_tile_sums(dut):
    random = rng()
    start(dut)
    dut.s_valid.value = 0
    await cycles(dut, 8)
    for trial in range(12):
        extreme = trial % 3 == 0

        def draw(extreme=extreme):
            return [random.choice([TOP, -TOP]) if extreme else random.randint(-TOP, TOP) for _ in range(32)]

        words = random.choice([2, 3, 4, 8])
        k, q = [draw() for _ in range(words)], [draw() for _ in range(words)]
        for i in range(words):
            await issue(dut, 0, i == 0, i == words - 1, k[i], q[i])
        v = [draw() for _ in range(16)]
        weights = [2**26 - 1 if extreme else random.getrandbits(26) for _ in range(16)]
        for t in range(16):
            await issue(dut, 1, t == 0, t == 15, v[t], weight=weights[t])
            if t == 4:
                got = signed(int(dut.dot.value), 55)
                assert got == sum(a * b for x, y in zip(k, q, strict=True) for a, b in zip(x, y, strict=True))
        await cycles(dut, 4)
        sums = [signed(x, 54) for x in unpack(int(dut.sums.value), 54, 32)]
        assert sums == [sum(w * row[lane] for w, row in zip(weights, v, strict=True)) for lane in range(32)]
