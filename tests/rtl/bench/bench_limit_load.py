# SPDX-License-Identifier: Apache-2.0
"""limit_load: what each row sees, against `model_descriptors.visible`; the first limit out of range is told."""

import cocotb
import numpy as np
from clocked import cycles, reset, rng, settle
from nearkv_driver import regmap as rm
from nearkv_emulation.model_descriptors import visible


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def rows_and_verdicts(dut):
    random = rng()
    await reset(dut, start=0, s_valid=0, row_ready=0)
    bad_ones = 0
    for case in range(150):
        group = random.choice([1, 1, 2, 3, 8])
        tokens = random.randint(1, 64 // group)
        window = random.choice([0, 0, 1, 5, 1000, rm.POSITIONS_MAX - 1])
        high = random.choice([40, rm.POSITIONS_MAX])
        limits = [[random.randint(0, high), random.randint(0, high)] for _ in range(tokens)]
        if case % 4 == 0:
            for _ in range(2):
                pick = random.randrange(tokens)
                limits[pick][random.randrange(2)] = random.choice([rm.POSITIONS_MAX + 1, 2**31, 2**32 - 1])
        words = []
        for i in range(0, tokens, 8):
            data = np.array(limits[i : i + 8], np.uint32).tobytes()
            # What follows the last limit in its word must not matter.
            words.append(int.from_bytes(data + random.randbytes(64 - len(data)), "little"))
        dut.query_tokens.value, dut.group.value, dut.window.value = tokens, group, window
        dut.start.value = 1
        await cycles(dut)
        dut.start.value = 0
        rows = []
        while True:
            valid, ready = bool(words) and random.random() < 0.7, random.random() < 0.8
            dut.s_valid.value, dut.row_ready.value = valid, ready
            if valid:
                dut.s_data.value = words[0]
            await settle()
            if int(dut.row_valid.value) and ready:
                rows.append([int(x.value) for x in (dut.row, dut.low, dut.high)])
            done = int(dut.done.value)
            if done:
                verdict = [int(x.value) for x in (dut.bad, dut.position, dut.detail)]
            if valid and int(dut.s_ready.value):
                words.pop(0)
            await cycles(dut)
            if done:
                break
        assert not words, "done before every word was taken"
        wrong = [(t, 4 * f) for t, pair in enumerate(limits) for f in range(2) if pair[f] > rm.POSITIONS_MAX]
        assert verdict[0] == bool(wrong)
        if wrong:
            bad_ones += 1
            assert tuple(verdict[1:]) == wrong[0]
            continue
        assert [r for r, _, _ in rows] == list(range(tokens * group + -(tokens * group) % 8))
        edges = sorted({max(0, x + o) for pair in limits for x in pair for o in (-1, 0, 1, -window, 1 - window)})
        positions = np.array(edges)
        sees = visible(np.array(limits), window, positions)
        for row, low, high_ in rows:
            want = sees[row // group] if row < tokens * group else np.zeros(len(positions), bool)
            assert (((positions >= low) & (positions < high_)) == want).all(), (row, low, high_, limits)
    assert bad_ones > 20
