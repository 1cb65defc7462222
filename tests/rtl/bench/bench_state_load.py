# SPDX-License-Identifier: Apache-2.0
"""state_load: bins of stored states, and the first row that cannot be a state, against `model_state`."""

import cocotb
import numpy as np
from clocked import cycles, reset, rng, settle, signed, unpack
from nearkv_driver import regmap as rm
from nearkv_emulation.model_memory import Fault
from nearkv_emulation.model_state import state_from_bytes, state_nbytes

from tests.support.jobs import padded
from tests.support.random_jobs import random_state


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def states_of_every_head_size(dut):
    random = rng()
    await reset(dut, start=0, s_valid=0, o_ready=0, l_ready=0)
    refused = 0
    for case in range(30):
        head_size, rows = rm.HEAD_SIZES[case % 6], random.choice([1, 2, 3, 5])
        d_pad = padded(head_size)
        raw = np.frombuffer(random_state(np.random.default_rng(case), rows, head_size), np.int64).copy()
        if case % 2:
            for _ in range(random.choice([1, 2])):
                at = random.choice([random.randrange(len(raw)), rows * 3 * d_pad + random.randrange(4 * rows)])
                raw[at] = random.choice([2**49, -(2**49) - 1, 2**19, -(2**19), 1, 2**31, -1, 2**62, rm.EMPTY_T])
        try:
            nbytes = state_nbytes(rows, d_pad)
            want = state_from_bytes(raw.view(np.uint8)[:nbytes], rows, head_size, d_pad)
        except Fault as fault:
            want = fault.position
            refused += 1
        data = raw.tobytes()
        words = [int.from_bytes(data[i : i + 64], "little") for i in range(0, nbytes, 64)]
        dut.rows.value, dut.chunks.value, dut.half_last.value = rows, d_pad // 32, head_size % 32 != 0
        dut.start.value = 1
        await cycles(dut)
        dut.start.value = 0
        o, last = np.full((rows, 3, d_pad), 2**55), {}
        while True:
            valid, o_ready, l_ready = (
                bool(words) and random.random() < 0.8,
                random.random() < 0.7,
                random.random() < 0.7,
            )
            dut.s_valid.value, dut.o_ready.value, dut.l_ready.value = valid, o_ready, l_ready
            if valid:
                dut.s_data.value = words[0]
            await settle()
            if int(dut.o_valid.value) and o_ready:
                at = int(dut.o_word.value) * 16 + int(dut.o_half.value) * 8
                bins = [signed(x, 50) for x in unpack(int(dut.o_data.value), 50, 8)]
                o[int(dut.o_row.value), int(dut.o_bin.value), at : at + 8] = bins
            if int(dut.l_valid.value) and l_ready:
                bins = [signed(x, 50) for x in unpack(int(dut.l_data.value), 50, 3)]
                last[int(dut.l_row.value)] = (bins, int(dut.l_seen.value), signed(int(dut.l_top.value), 20))
            done = int(dut.done.value)
            if done:
                verdict = int(dut.bad.value), int(dut.position.value) if int(dut.bad.value) else None
            if valid and int(dut.s_ready.value):
                words.pop(0)
            await cycles(dut)
            if done:
                break
        assert not words, "done before every word was taken"
        if isinstance(want, int):
            assert verdict == (1, want)
            continue
        assert verdict[0] == 0, verdict
        assert (o[:, :, :head_size] == want.o).all()
        assert (o[:, :, head_size:] == 0).all(), "padding is not zero"
        for row in range(rows):
            seen = want.t[row] != rm.EMPTY_T
            assert last[row][:2] == (want.l[row].tolist(), seen)
            assert not seen or last[row][2] == want.t[row]
    assert 5 < refused < 25
