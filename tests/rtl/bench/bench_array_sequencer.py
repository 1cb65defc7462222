# SPDX-License-Identifier: Apache-2.0
"""array_sequencer: every operation of random visits, K of the next unit before V of this one; nothing is walked before
its rows, tiles and queries are there, and nothing stands still when they are."""

from dataclasses import dataclass

import cocotb
from clocked import cycles, reset, rng, settle
from walks import SHAPES
from wires import UNIT, VISIT

QUIET = dict.fromkeys(("visit_valid", "loaded", "k_row", "tile_ready"), 0)
# rates of visits, rows of K, tiles, queries of a job
RATES = [(1, 1, 1, 1), (0.05, 0.9, 0.9, 0.9), (0.9, 0.4, 0.9, 0.05), (0.9, 0.9, 0.03, 0.9)]
# tiles that tile_top may be ahead
AHEAD = 2
BOTH = ("addr", "weights", "parity", "group", "first", "last", "pad", "end", "empty")
K_FIELDS = (*BOTH, "block")
V_FIELDS = (*BOTH, "present", "tile", "chunks")


@dataclass
class Unit:
    """8 rows of a visit: its operations, and what tile_top is told."""

    visit: int
    told: dict
    k: list
    v: list
    tiles: int
    group_last: bool


def drawn(random, count):
    """Visits of jobs of both parities."""
    visits, parity, left = [], 0, 0
    for _ in range(count):
        if not left:
            left, parity = random.choice([1, 1, 2, 4]), parity ^ 1
            shape, groups = random.choice(SHAPES), random.choice([0, 0, 1, 7])
        left -= 1
        slot = 16 * random.choice([0, 0, 1, 7])
        tokens = min(128 - slot, random.choice([0, 1, 2, 16, 17, 33] if groups < 7 else [1, 5]))
        fields = {"job_last": not left, "parity": parity, "half_last": shape[1], "chunks": shape[0], "groups": groups}
        visits.append(fields | {"block": random.randrange(2**14), "slot": slot, "tokens": tokens})
    visits[-1]["job_last"] = 1
    return [{name: int(value) for name, value in visit.items()} for visit in visits]


def units(visits):
    found, number, tile = [], 0, 0
    for index, visit in enumerate(visits):
        for group in range(visit["groups"] + 1):
            last = group == visit["groups"]
            half, weights = index % 2, number % 2
            told = {"group_last": last, "half": half, "weights": weights, "parity": visit["parity"], "group": group}
            told |= {"slot": visit["slot"], "tokens": visit["tokens"]}
            fixed = {"weights": weights, "parity": visit["parity"], "group": group}
            k = list(k_ops(visit, half, fixed))
            v = list(v_ops(visit, half, fixed, tile, last and visit["job_last"]))
            count = -(-(visit["slot"] % 16 + visit["tokens"]) // 16) if visit["tokens"] else 0
            found.append(Unit(index, {name: int(value) for name, value in told.items()}, k, v, count, last))
            number, tile = number + 1, tile + count
    return found


def k_ops(visit, half, fixed):
    """Words of the rows, one token after the other."""
    for token in range(visit["tokens"]):
        for chunk in range(visit["chunks"]):
            last = chunk == visit["chunks"] - 1
            fields = {"addr": half << 10 | visit["slot"] + token << 3 | chunk, "first": chunk == 0, "last": last}
            fields |= {"pad": visit["half_last"] and last, "end": last and token == visit["tokens"] - 1, "empty": 0}
            yield fixed | fields | {"block": visit["block"]}


def v_ops(visit, half, fixed, number, job_end):
    """Tiles; in each its words, and of each word 16 tokens."""
    if not visit["tokens"]:
        yield fixed | {"empty": 1, "end": job_end}
        return
    end = visit["slot"] + visit["tokens"]
    for tile in range(visit["slot"] // 16, -(-end // 16)):
        for chunk in range(visit["chunks"]):
            for token in range(16):
                place, last = 16 * tile + token, chunk == visit["chunks"] - 1
                fields = {"addr": half << 10 | place << 3 | chunk, "first": token == 0, "last": token == 15}
                fields |= {"pad": visit["half_last"] and last, "present": visit["slot"] <= place < end, "empty": 0}
                fields["end"] = job_end and place == 16 * -(-end // 16) - 1 and last
                yield fixed | fields | {"tile": number % 4, "chunks": visit["chunks"]}

        number += 1


class Harness:
    """Everything around the module; keeps what it was told and when."""

    def __init__(self, dut, random, visits, rates):
        self.dut, self.random, self.visits, self.rates = dut, random, visits, rates
        self.units = units(visits)
        self.ops, self.told, self.at = [], [], []
        self.visit, self.rows, self.rows_before = 0, [0] * len(visits), [0] * len(visits)
        self.k_released = self.v_released = self.ready = self.taken = 0
        self.loaded, self.loaded_before, self.held, self.cycle = [0, 0], [0, 0], False, 0

    async def step(self):
        dut, random = self.dut, self.random
        visit_rate, row_rate, tile_rate, load_rate = self.rates
        visit = self.visits[self.visit] if self.visit < len(self.visits) else None
        valid = visit is not None and (self.held or random.random() < visit_rate)
        self.held = valid
        if visit and random.random() < load_rate:
            self.loaded[visit["parity"]] = 1
        filling = range(self.k_released, min(self.k_released + 2, len(self.visits)))
        v = next((v for v in filling if self.rows[v] < self.visits[v]["tokens"]), None)
        row = v is not None and random.random() < row_rate
        room = sum(unit.tiles for unit in self.units[: len(self.told)])
        tile = self.ready < room and self.ready - self.taken < AHEAD and random.random() < tile_rate
        dut.visit_valid.value, dut.k_row.value, dut.tile_ready.value = valid, row, tile
        if valid:
            dut.visit.value = VISIT.pack(**visit)
        dut.loaded.value = self.loaded[0] | self.loaded[1] << 1
        await settle()
        if int(dut.op_valid.value):
            self.op()
        self.loaded_before = list(self.loaded)
        self.rows_before = list(self.rows)
        self.rows[v or 0] += row
        self.ready += tile
        self.taken += int(dut.tile_taken.value)
        assert self.taken <= self.ready, "a tile was walked before it was ready"
        if int(dut.unit_valid.value):
            self.told.append(UNIT.unpack(int(dut.unit.value)))
        self.k_released += int(dut.k_release.value)
        self.v_released += int(dut.v_release.value)
        if valid and int(dut.visit_ready.value):
            self.visit += 1
            self.held = False
            following = self.visits[self.visit] if self.visit < len(self.visits) else None
            if visit["job_last"] and following and following["parity"] != visit["parity"]:
                # q of the job after the next one takes the place of this one's.
                self.loaded[following["parity"]] = 0
        assert self.k_released == self.visit, "rows were left at another time than their visit"
        await cycles(dut)
        self.cycle += 1

    def op(self):
        dut = self.dut
        is_v = int(dut.op_is_v.value)
        names = V_FIELDS if is_v else K_FIELDS
        if is_v and int(dut.op_empty.value):
            names = ("weights", "parity", "group", "end", "empty")
        op = {name: int(getattr(dut, f"op_{name}").value) for name in names}
        self.ops.append((is_v, op))
        self.at.append(self.cycle)
        if not is_v:
            assert self.loaded_before[op["parity"]], "K was read before the queries of its job were there"
            done = sum(not v for v, _ in self.ops) - 1
            unit, nth = self.k_unit(done)
            rows = self.rows_before[unit.visit]
            assert nth // self.visits[unit.visit]["chunks"] < rows, "a row of K was read before it was there"

    def k_unit(self, done):
        """The unit of a K operation, and which of its operations it is."""
        for unit in self.units:
            if done < len(unit.k):
                return unit, done
            done -= len(unit.k)
        raise AssertionError("more of K was read than there is")

    async def run(self, stop=None):
        total = sum(len(unit.k) + len(unit.v) for unit in self.units)
        for _ in range(12_000):
            await self.step()
            if self.cycle == stop or len(self.ops) == total:
                break
        for _ in range(0 if stop else 3):
            await self.step()

    def judge(self):
        """Every operation; K and V each in order, no unit cut, K never more than two units before V."""
        want = {kind: [op for unit in self.units for op in (unit.v if kind else unit.k)] for kind in (0, 1)}
        for kind in (0, 1):
            got = [op for is_v, op in self.ops if is_v == kind]
            assert len(got) == len(want[kind])
            for number, (w, g) in enumerate(zip(want[kind], got, strict=True)):
                assert {name: int(w[name]) for name in g} == g, (kind, number)
        assert self.told == [unit.told for unit in self.units]
        assert self.taken == sum(unit.tiles for unit in self.units)
        assert self.v_released == self.k_released == len(self.visits)
        place, k, v = 0, 0, 0
        while place < len(self.ops):
            is_v = self.ops[place][0]
            while not is_v and not self.units[k].k:
                k += 1
            unit = self.units[v if is_v else k]
            parts = unit.v if is_v else unit.k
            kinds = {kind for kind, _ in self.ops[place : place + len(parts)]}
            assert kinds == {is_v}, "a unit was cut"
            if is_v:
                assert v < k or not unit.k, "V before its K"
                v += 1
            else:
                assert k < v + 2, "K of a third unit"
                k += 1
            place += len(parts)


async def fresh(dut):
    await reset(dut, **QUIET)
    await cycles(dut)


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(rates=RATES)
async def operations_of_visits(dut, rates):
    random = rng()
    await fresh(dut)
    harness = Harness(dut, random, drawn(random, 10), rates)
    await harness.run()
    harness.judge()


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def no_cycle_is_lost(dut):
    """When everything is there: K0 K1 V0 K2 V1 ..., with a pause at the start and the end of it only."""
    random = rng()
    await fresh(dut)
    visits = [visit | {"tokens": 33, "slot": 16, "groups": 1, "job_last": 0} for visit in drawn(random, 5)]
    harness = Harness(dut, random, visits, (1, 1, 1, 1))
    await harness.run()
    order = []
    for is_v, op in harness.ops:
        if not order or order[-1][0] != is_v or (op["first"] and op["weights"] != order[-1][1]):
            order.append((is_v, op["weights"]))
    kinds = [is_v for is_v, _ in order]
    assert kinds == [0, 0, *[1, 0] * 8, 1, 1]
    gaps = [b - a - 1 for a, b in zip(harness.at, harness.at[1:], strict=False)]
    # After the first K, whose V has no second K ahead at once, and before the last V.
    assert sum(gaps) <= 2, gaps


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def a_reset_in_any_cycle(dut):
    random = rng()
    await fresh(dut)
    for _ in range(8):
        await Harness(dut, random, drawn(random, 5), (1, 1, 1, 1)).run(stop=random.randrange(1, 250))
        for name, value in QUIET.items():
            getattr(dut, name).value = value
        dut.rst.value = 1
        await cycles(dut)
        dut.rst.value = 0
        await settle()
        assert not int(dut.op_valid.value)
        harness = Harness(dut, random, drawn(random, 2), (0.9, 0.9, 0.9, 0.9))
        await harness.run()
        harness.judge()
