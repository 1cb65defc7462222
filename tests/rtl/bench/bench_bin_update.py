# SPDX-License-Identifier: Apache-2.0
"""bin_update: random tiles of a group of rows, against `model_state.State`; rows that see nothing keep theirs."""

import cocotb
import numpy as np
from clocked import cycles, pack, reset, rng, settle, signed, unpack
from nearkv_driver import regmap as rm
from nearkv_emulation.model_arith import bin_of
from nearkv_emulation.model_state import State

CHUNKS = 3
GROUP, PARITY = 5, 1


def address(row, word):
    """Of 16 columns of a row of 96 elements: eight words a row."""
    return PARITY << 9 | (GROUP * 8 + row) << 3 | word


def descriptors(state, seen, r, rl):
    """What tile_top leaves for 8 rows."""
    packed = []
    for row in range(8):
        new = max(int(state.t[row]), int(max(bin_of(r[row]), bin_of(rl[row]))))
        fresh = state.t[row] == rm.EMPTY_T
        downs = [3 if fresh else min(3, new - int(state.t[row]))]
        downs += [min(3, new - int(bin_of(x[row]))) for x in (rl, r)]
        word = int(seen[row]) << 55 | downs[0] << 53 | downs[1] << 51 | downs[2] << 49
        packed.append(word | (int(rl[row]) & 0xFFFFFF) << 25 | (int(r[row]) + 14) & 0x1FFFFFF)
    return pack(packed, 56)


class Store:
    """bin_store as bin_update sees it: reads take one cycle, writes come after the reads of their cycle."""

    def __init__(self, dut, state):
        self.dut, self.state = dut, state
        self.words, self.rows = {}, {}

    async def step(self):
        dut = self.dut
        await settle()
        read = (int(dut.read_addr.value), int(dut.read_row.value)) if int(dut.read.value) else None
        write = (int(dut.write_addr.value), int(dut.write_data.value)) if int(dut.write.value) else None
        l_write = (int(dut.l_row.value), int(dut.l_data.value)) if int(dut.l_write.value) else None
        done = int(dut.job_done.value)
        await cycles(dut)
        if read:
            # A row that saw nothing before holds anything: the shift of its old bins is 3.
            dut.read_data.value = self.words.get(read[0], (1 << 2400) - 1)
            dut.read_l_data.value = self.rows.get(read[1], (1 << 150) - 1)
        if write:
            self.words[write[0]] = write[1]
        if l_write:
            self.rows[l_write[0]] = l_write[1]
        return done


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def tiles_into_bins(dut):
    random, draw = rng(), np.random.default_rng(20)
    await reset(dut, s_valid=0, s_tag=0, big=0, sums=0, weight_sums=0, descriptor=0, read_data=0, read_l_data=0)
    # Pipelines without a reset of their own run empty.
    await cycles(dut, 5)
    state = State(8, 32 * CHUNKS)
    store = Store(dut, state)
    ends = 0
    for tile in range(60):
        # Exponents wander up and down by less than a bin and by many.
        middle = random.choice([0, 3, -70, 40, 31, 32, -500, 64])
        seen = np.array([random.random() < 0.8 for _ in range(8)])
        r = np.array([middle + random.randint(-3, 40) for _ in range(8)])
        rl = r + np.array([random.randint(-40, 40) for _ in range(8)])
        x = draw.integers(-(2**53), 2**53, (8, 32 * CHUNKS)) >> draw.integers(0, 50)
        w = draw.integers(2**24, 2**30, 8)
        empty = tile % 9 == 8
        end = tile % 7 == 6
        dut.descriptor.value = descriptors(state, seen, r, rl)
        for chunk in range(CHUNKS):
            last = end and chunk == CHUNKS - 1
            tag = last << 14 | empty << 13 | (tile % 4) << 11 | PARITY << 10 | GROUP << 7 | chunk << 4 | CHUNKS
            dut.s_valid.value, dut.s_tag.value = 1, tag
            await settle()
            assert int(dut.tile.value) == tile % 4
            ends += await store.step()
            dut.s_valid.value = 0
            dut.sums.value = pack(x[:, 32 * chunk : 32 * chunk + 32].reshape(-1).tolist(), 54)
            dut.weight_sums.value = pack(w.tolist(), 30)
            for _ in range(15 + random.randint(0, 3)):
                ends += await store.step()
        for _ in range(6):
            ends += await store.step()
        if not empty:
            state.add(seen[:, None], r[:, None], rl[:, None], x[:, None, :], w[:, None])
        o, l_bins = state.wrapped()
        for row in np.flatnonzero(state.t != rm.EMPTY_T).tolist():
            got = [unpack(store.words[address(row, word)], 50, 48) for word in range(2 * CHUNKS)]
            bins = [[signed(v, 50) for g in got for v in g[16 * b : 16 * b + 16]] for b in range(3)]
            assert bins == o[row].tolist(), (tile, row)
            kept = unpack(store.rows[PARITY << 6 | GROUP << 3 | row], 50, 3)
            assert [signed(v, 50) for v in kept] == l_bins[row].tolist(), (tile, row)
    assert ends == 60 // 7
