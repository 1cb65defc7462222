# SPDX-License-Identifier: Apache-2.0
"""tile_top: tops, shifts and T of random tiles against `model_arith` and `model_state`, while weights and rows of V
come as late as they may and the array keeps each tile for a while."""

from dataclasses import dataclass

import cocotb
import numpy as np
from clocked import cycles, known, pack, reset, rng, settle, signed
from nearkv_driver import regmap as rm
from nearkv_emulation.model_arith import bin_of
from wires import UNIT, Wires

DESCRIPTOR = Wires(any=1, old=2, low=2, out=2, rl=24, r=25)
# tiles that the module may be ahead of the array
AHEAD = 2
GARBAGE = (1 << 200) - 1
LEAST, MOST = -(2**23), 2**23 - 1


@dataclass
class Visit:
    parity: int
    groups: int
    slot: int
    tokens: int
    # [groups][row][token]: whole part of the weight, visible; exponent field of each V row
    whole: np.ndarray
    seen: np.ndarray
    tops: list


def drawn(random, count):
    """Visits of both parities; slots at tiles, lengths of one, odd, whole blocks and nothing."""
    visits = []
    for _ in range(count):
        slot = 16 * random.choice([0, 0, 1, 7])
        tokens = random.choice([0, 1, 15, 16, 17, 33, 128]) if random.random() < 0.8 else random.randint(1, 128)
        tokens = min(tokens, 128 - slot)
        groups = random.choice([1, 1, 2, 8] if tokens < 20 else [1])
        draw = np.random.default_rng(random.getrandbits(32))
        shape = (groups, 8, tokens)
        middle = random.choice([0, 0, 3, -70, 40, 33, LEAST, MOST])
        spread = random.choice([0, 5, 40, 300])
        whole = np.clip(middle + draw.integers(-spread, spread + 1, shape), LEAST, MOST)
        seen = draw.random(shape) < random.choice([0.05, 0.5, 1.0])
        tops = [random.randint(1, random.choice([1, 30])) for _ in range(tokens)]
        visits.append(Visit(random.randrange(2), groups, slot, tokens, whole, seen, tops))
    return visits


class Rows:
    """T of all rows, and what a tile makes of it."""

    def __init__(self):
        self.t = {}

    def tile(self, visit, group, first, last):
        """Descriptors of 8 rows for tokens [first, last) of a visit; None in fields of a row that sees nothing."""
        told = []
        for row in range(8):
            whole, seen = visit.whole[group, row, first:last], visit.seen[group, row, first:last]
            if not seen.any():
                told.append({"any": 0})
                continue
            # The exponent of V is its field less 14.
            exponents = whole + np.array(visit.tops[first:last]) - 14
            r, rl = int(exponents[seen].max()), int(whole[seen].max())
            own = [int(bin_of(np.int64(x))) for x in (r, rl)]
            key = visit.parity, 8 * group + row
            old = self.t[key]
            new = max(*own, *([old] if old is not None else []))
            self.t[key] = new
            downs = [3 if old is None else min(3, new - old), min(3, new - own[1]), min(3, new - own[0])]
            told.append({"any": 1, "old": downs[0], "low": downs[1], "out": downs[2], "rl": rl, "r": r + 14})
        return told


def judge(port, want):
    """Descriptors of 8 rows; of a row that sees nothing only that counts."""
    text = str(port.value)
    for row, fields in enumerate(want):
        bits = text[len(text) - 56 * (row + 1) : len(text) - 56 * row]
        if not fields["any"]:
            assert bits[0] == "0", f"row {row} sees nothing"
            continue
        got = DESCRIPTOR.unpack(int(bits, 2))
        got["rl"], got["r"] = signed(got["rl"], 24), signed(got["r"], 25)
        assert got == fields, f"row {row}"


class Harness:
    """The buffers around the module, and the array that takes tiles; one cycle per step."""

    def __init__(self, dut, random, rates):
        self.dut, self.random, self.rates = dut, random, rates
        self.weights, self.tops = {}, {}
        self.stored = 0

    async def cycle(self, **inputs):
        dut = self.dut
        for name in ("unit_valid", "weights_done", "v_row", "tile_taken", "s_valid"):
            getattr(dut, name).value = inputs.pop(name, 0)
        for name, value in inputs.items():
            getattr(dut, name).value = value
        await settle()
        w, t = known(dut.w_addr), known(dut.t_addr)
        ready, taken = int(dut.tile_ready.value), int(dut.s_ready.value)
        await cycles(dut)
        # Memories answer a cycle later; what has not been written reads as anything.
        dut.w_whole.value, dut.t_top.value = self.weights.get(w, GARBAGE), self.tops.get(t, 31)
        return ready, taken

    async def load(self, rows, keys):
        """T of rows at the start of their jobs, offered until taken."""
        for parity, row in keys:
            t = rows.t[parity, row]
            taken = 0
            while not taken:
                valid = self.random.random() < 0.8
                _, taken = await self.cycle(
                    s_valid=valid, w_parity=parity, s_row=row, s_seen=t is not None, s_top=(t or 0) & 0xFFFFF
                )
                taken &= valid

    async def walk(self, visits, rows, stop=None, keys=()):
        """All tiles of the visits; every descriptor is judged for as long as it may be read. `keys`: rows of another
        job that are loaded meanwhile."""
        keys, offered = list(keys), False
        dut, random = self.dut, self.random
        issue, weigh, row_rate, take = self.rates
        units = [(v, g) for v, visit in enumerate(visits) for g in range(visit.groups)]
        tiles = [tile for unit in units for tile in self.tiles(visits, rows, unit)]
        last_tile = {unit: max((n for n, t in enumerate(tiles) if t[0] == unit), default=-1) for unit in units}
        issued, weighed, ready, taken, left = 0, 0, 0, 0, 0
        v_rows = [0] * len(visits)
        for cycle in range(8000):
            inputs = {}
            # units whose V has been walked; those without tokens take no tile
            while left < len(units) and taken > last_tile[units[left]] and left < issued:
                left += 1
            if issued < len(units) and issued < left + 2 and random.random() < issue:
                inputs |= {"unit_valid": 1, "unit": self.unit(visits, units[issued], issued)}
                issued += 1
            while weighed < issued and not visits[units[weighed][0]].tokens:
                weighed += 1
            if weighed < issued and random.random() < weigh:
                self.fill(visits, units[weighed], weighed)
                inputs["weights_done"] = 1
                weighed += 1
            now = units[left][0] if left < len(units) else len(visits)
            v = next((v for v in range(min(now + 2, len(visits))) if v_rows[v] < visits[v].tokens), None)
            if v is not None and random.random() < row_rate:
                place = visits[v].slot + v_rows[v]
                self.tops[v % 2 << 7 | place] = visits[v].tops[v_rows[v]]
                inputs["v_row"] = 1
                v_rows[v] += 1
            if taken < ready and random.random() < take:
                inputs["tile_taken"] = 1
                taken += 1
            # the array reads a tile that it has not left, the bins one that it left lately
            inputs["a_tile"], inputs["b_tile"] = 0, 0
            a = random.randrange(taken, ready) if taken < ready else None
            b = random.randrange(max(0, taken - AHEAD), ready) if ready else None
            inputs |= {name: (self.stored + n) % 4 for name, n in (("a_tile", a), ("b_tile", b)) if n is not None}
            # A row comes when a tile is done, and is offered until it has been taken.
            offered = bool(keys) and (offered or int(dut.tile_ready.value) == 1)
            if offered:
                parity, row = keys[0]
                t = rows.t[keys[0]]
                inputs |= {"s_valid": 1, "w_parity": parity, "s_row": row, "s_seen": t is not None}
                inputs["s_top"] = (t or 0) & 0xFFFFF
            came, loads = await self.cycle(**inputs)
            if offered and loads:
                keys, offered = keys[1:], False
            for n, port in ((a, dut.a_descriptor), (b, dut.b_descriptor)):
                if n is not None:
                    judge(port, tiles[n][1])
            ready += came
            assert ready - taken <= AHEAD
            if cycle == stop or (taken == len(tiles) and issued == len(units)):
                break
        assert stop or not keys
        self.stored += ready
        return taken == len(tiles)

    @staticmethod
    def tiles(visits, rows, unit):
        """[(unit, descriptors)] of a unit's tiles."""
        visit = visits[unit[0]]
        found, first = [], 0
        while first < visit.tokens:
            last = min(visit.tokens, first + 16 - (visit.slot + first) % 16)
            found.append((unit, rows.tile(visit, unit[1], first, last)))
            first = last
        return found

    @staticmethod
    def unit(visits, unit, number):
        visit = visits[unit[0]]
        last = unit[1] == visit.groups - 1
        fields = {"group_last": last, "half": unit[0] % 2, "weights": number % 2, "parity": visit.parity}
        return UNIT.pack(**fields, group=unit[1], slot=visit.slot, tokens=visit.tokens)

    def fill(self, visits, unit, number):
        """The weights of a unit take the place of those of two units before; rows beside it hold anything."""
        visit = visits[unit[0]]
        for place in range(128):
            self.weights[number % 2 << 7 | place] = GARBAGE
        for token in range(visit.tokens):
            whole, seen = visit.whole[unit[1], :, token], visit.seen[unit[1], :, token]
            word = [(int(w) & 0xFFFFFF) | int(s) << 24 for w, s in zip(whole, seen, strict=True)]
            self.weights[number % 2 << 7 | visit.slot + token] = pack(word, 25)


async def fresh(dut):
    quiet = ("unit_valid", "weights_done", "v_row", "tile_taken", "s_valid", "a_tile", "b_tile", "f_row", "t_top")
    await reset(dut, **dict.fromkeys(quiet, 0), w_whole=0)
    await cycles(dut)


def loaded(random):
    """Random T of all rows, some empty."""
    rows = Rows()
    middle = random.choice([0, 2, -5, rm.STATE_T_LIMIT - 9, -rm.STATE_T_LIMIT + 9])
    for parity in range(2):
        for row in range(64):
            empty = random.random() < 0.5
            rows.t[parity, row] = None if empty else middle + random.randint(-8, 8)
    return rows


async def judge_ends(dut, harness, keys, rows):
    """T of rows as job_finish reads it."""
    for parity, row in keys:
        t = rows.t[parity, row]
        await harness.cycle(f_row=parity << 6 | row)
        assert int(dut.f_seen.value) == (t is not None)
        assert t is None or signed(int(dut.f_top.value), 20) == t


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(rates=[(1, 1, 1, 1), (0.1, 0.9, 0.9, 0.3), (0.9, 0.04, 0.9, 0.9), (0.9, 0.9, 0.3, 0.1)])
async def tops_of_tiles(dut, rates):
    random = rng()
    await fresh(dut)
    harness, rows = Harness(dut, random, rates), loaded(random)
    await harness.load(rows, rows.t)
    assert await harness.walk(drawn(random, 14), rows), "some tiles never came"
    await judge_ends(dut, harness, rows.t, rows)


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def rows_are_loaded_while_another_job_is_walked(dut):
    random = rng()
    await fresh(dut)
    harness, rows = Harness(dut, random, (1, 1, 1, 1)), loaded(random)
    await harness.load(rows, [key for key in rows.t if key[0] == 0])
    visits = [visit for visit in drawn(random, 40) if visit.parity == 0 and visit.tokens > 16][:6]
    keys = [(1, row) for row in range(12)]
    assert await harness.walk(visits, rows, keys=keys)
    await judge_ends(dut, harness, [*keys, *(key for key in rows.t if key[0] == 0)], rows)


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def a_reset_in_any_cycle(dut):
    random = rng()
    await fresh(dut)
    harness = Harness(dut, random, (1, 1, 1, 1))
    for _ in range(6):
        rows = loaded(random)
        await harness.load(rows, rows.t)
        await harness.walk(drawn(random, 6), rows, stop=random.randrange(90))
        dut.rst.value = 1
        for name in ("unit_valid", "weights_done", "v_row", "tile_taken"):
            getattr(dut, name).value = 0
        await cycles(dut)
        dut.rst.value = 0
        await settle()
        assert not int(dut.tile_ready.value)
        harness, rows = Harness(dut, random, (0.5, 0.5, 0.9, 0.5)), loaded(random)
        await harness.load(rows, [key for key in rows.t if key[1] < 8])
        assert await harness.walk([visit for visit in drawn(random, 8) if visit.groups == 1], rows)
