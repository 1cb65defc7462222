# SPDX-License-Identifier: Apache-2.0
"""score_stage: dots of eight rows to weights at the right place, against `model_arith`; who sees, who clamps."""

import cocotb
import numpy as np
from clocked import cycles, pack, rng, settle, signed, start, unpack
from nearkv_emulation.model_arith import scaled_scores, weights


@cocotb.test()
async def tokens_of_two_jobs(dut):
    random = rng()
    start(dut)
    tables = {
        (parity, group): [(random.randint(0, 300), random.randint(0, 300), random.randint(-90, 20)) for _ in range(8)]
        for parity in range(2)
        for group in range(8)
    }
    scales = [random.randint(2**23, 2**24 - 1) for _ in range(2)]
    dut.scales.value, dut.s_valid.value = pack(scales, 24), 0
    for name, i, bits in (("r_low", 0, 22), ("r_high", 1, 22), ("r_shift", 2, 10)):
        getattr(dut, name).value = pack([row[i] for row in tables[0, 0]], bits)
    await cycles(dut, 12)
    want, got, clamps, told, dones, finished = [], [], [], [], 0, 0
    for step in range(900):
        valid = step % 2 == 0 and random.random() < 0.8 and step < 880
        dut.s_valid.value = valid
        if valid:
            parity, group, half, end = (
                random.randrange(2),
                random.randrange(8),
                random.randrange(2),
                random.random() < 0.1,
            )
            position, top = random.randint(0, 310), random.randint(1, 30)
            dots = [signed(random.getrandbits(n := random.randint(2, 55)), n) for _ in range(8)]
            dut.s_dots.value, dut.s_parity.value, dut.s_group.value = pack(dots, 55), parity, group
            dut.s_weights.value, dut.s_position.value = half, position
            dut.s_top.value, dut.s_end.value = top, end
            rows = tables[parity, group]
            shifts = np.array([row[2] + top - 14 for row in rows])
            score, clamped = scaled_scores(np.array(dots), scales[parity], shifts)
            mantissa, whole = weights(score)
            sees = [row[0] <= position < row[1] for row in rows]
            for upper in range(2):
                part = slice(4 * upper, 4 * upper + 4)
                visible = sum(s << i for i, s in enumerate(sees[part]))
                want.append((upper, half << 7 | position % 128, mantissa[part].tolist(), whole[part].tolist(), visible))
                if any(c and s for c, s in zip(clamped[part], sees[part], strict=True)):
                    clamps.append((len(want) - 1, parity))
            dones += end
        # row_table answers one cycle after its address.
        await settle()
        pending = int(dut.r_parity.value), int(dut.r_group.value)
        if int(dut.w_valid.value):
            wholes = [signed(v, 24) for v in unpack(int(dut.w_whole.value), 24, 4)]
            mantissas = unpack(int(dut.w_mantissa.value), 25, 4)
            if int(dut.clamped.value):
                told.append((len(got), int(dut.clamped_parity.value)))
            got.append((int(dut.w_upper.value), int(dut.w_addr.value), mantissas, wholes, int(dut.w_visible.value)))
        finished += int(dut.done.value)
        await cycles(dut)
        for name, i, bits in (("r_low", 0, 22), ("r_high", 1, 22), ("r_shift", 2, 10)):
            getattr(dut, name).value = pack([row[i] for row in tables[pending]], bits)
    assert got == want
    assert told == clamps
    assert len(clamps) > 10
    assert finished == dones > 10
