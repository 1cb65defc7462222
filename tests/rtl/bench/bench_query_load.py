# SPDX-License-Identifier: Apache-2.0
"""query_load: block integers and shifts of random rows against `model_arith.block_integers`; Inf and NaN are told."""

import cocotb
import numpy as np
from clocked import cycles, reset, rng, settle, signed, unpack
from nearkv_driver import regmap as rm
from nearkv_emulation.model_arith import block_integers

from tests.support.jobs import padded, rows_bytes
from tests.support.random_jobs import random_q


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def rows_of_every_head_size(dut):
    random = rng()
    await reset(dut, start=0, s_valid=0)
    for case in range(36):
        head_size = rm.HEAD_SIZES[case % 6]
        rows = random.choice([1, 2, 3, 8, 9, 17])
        q = random_q(np.random.default_rng(case), rows, head_size)
        bad = []
        if case % 3 == 2:
            bad = sorted(random.sample(range(rows), random.randint(1, rows)))
            for row in bad:
                q[row, random.randrange(head_size)] = random.choice([np.inf, -np.inf, np.nan])
        d_pad, scale = padded(head_size), random.randint(-126, 127)
        data = rows_bytes(q)
        words = [int.from_bytes(data[i : i + 64], "little") for i in range(0, len(data), 64)]
        dut.rows.value, dut.chunks.value, dut.half_last.value = rows, d_pad // 32, head_size % 32 != 0
        dut.scale_exponent.value = scale & 0xFF
        dut.start.value = 1
        await cycles(dut)
        dut.start.value = 0
        got, shifts = np.full((rows, d_pad), 2**40), {}
        while True:
            valid = bool(words) and random.random() < 0.8
            dut.s_valid.value = valid
            if valid:
                dut.s_data.value = words[0]
            await settle()
            if int(dut.q_valid.value):
                row, at = int(dut.q_row.value), int(dut.q_chunk.value) * 32 + int(dut.q_half.value) * 16
                got[row, at : at + 16] = [signed(x, 24) for x in unpack(int(dut.q_data.value), 24, 16)]
                if int(dut.shift_valid.value):
                    shifts[row] = signed(int(dut.shift.value), 10)
            done = int(dut.done.value)
            if done:
                verdict = int(dut.bad.value), int(dut.position.value) if int(dut.bad.value) else None
            if valid and int(dut.s_ready.value):
                words.pop(0)
            await cycles(dut)
            if done:
                break
        assert not words, "done before every word was taken"
        assert verdict[0] == bool(bad)
        if bad:
            assert verdict[1] == bad[0]
            continue
        integers, exponents = block_integers(q.astype(np.float64), rm.Q_EXPONENT_MIN)
        assert (got[:, :head_size] == integers).all()
        assert (got[:, head_size:] == 0).all(), "padding is not zero"
        # 46 of the integers' places, less what the scale's mantissa brings: see model_attend.SHIFT_BIAS.
        assert shifts == {row: int(e) + scale - 46 for row, e in enumerate(exponents)}
