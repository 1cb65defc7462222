# SPDX-License-Identifier: Apache-2.0
"""job_finish with bin_words: the words of tail copies, state, output and identity of random jobs against `model_state`,
in the contract's order, through stalls of all channels; error replies of the reader and of the writer; resets."""

import cocotb
import numpy as np
from clocked import cycles, pack, reset, rng, settle
from nearkv_driver import regmap as rm
from nearkv_emulation.model import identity
from nearkv_emulation.model_memory import Fault
from nearkv_emulation.model_state import output_bytes, state_bytes, state_from_bytes, state_nbytes
from wires import FAULT, fault_of

from tests.support.jobs import padded
from tests.support.random_jobs import random_state

# rates of bins, of the reader's command and words, of the writer
RATES = [(1, 1, 1, 1), (0.3, 0.9, 0.9, 0.9), (0.9, 0.2, 0.4, 0.9), (0.9, 0.9, 0.9, 0.3)]
QUIET = dict.fromkeys(("start", "cmd_ready", "r_valid", "r_error", "f_ready", "w_ready", "w_failed"), 0)


def words_of(data):
    return [int.from_bytes(data[i : i + 64].tobytes(), "little") for i in range(0, len(data), 64)]


class Plan:
    """A job: its descriptor, its bins, what the reader holds, and the words that it must write."""

    def __init__(self, random, head_size, rows, **fixed):
        def place():
            return random.randrange(1, 2**50) * 64

        draw = np.random.default_rng(random.getrandbits(32))
        self.rows, self.d_pad, self.chunks = rows, padded(head_size), padded(head_size) // 32
        self.parity, self.big = random.randrange(2), self.chunks == 8 and rows > 32
        raw = np.frombuffer(random_state(draw, rows, head_size), np.uint8)[: state_nbytes(rows, self.d_pad)]
        self.state = state_from_bytes(raw, rows, head_size, self.d_pad)
        chosen = {"tail": random.random() < 0.5, "state": random.random() < 0.4, "output": random.random() < 0.8}
        chosen |= {"raw": random.random() < 0.4, "identify": False} | fixed
        self.fields = {"opcode": rm.Opcode.IDENTIFY, "out_addr": place()}
        self.words, self.reads, self.memory = [], [], {}
        if chosen["identify"]:
            block = rm.IDENTITY.unpack(identity()) | {"implementation": rm.Implementation.RTL}
            data = np.frombuffer(rm.IDENTITY.pack(**{name: block[name] for name in rm.IDENTITY.offset}), np.uint8)
            self.write(self.fields["out_addr"], data)
            return
        self.fields = {"opcode": rm.Opcode.ATTEND, "rows": rows, "flags": rm.JobFlag.RAW if chosen["raw"] else 0}
        if chosen["tail"]:
            new = random.choice([1, 2, 17] if self.chunks > 2 else [1, 64])
            self.fields["new_tokens"] = new
            for kind in ("k", "v"):
                source, target = place(), place()
                self.fields |= {f"new_{kind}_addr": source, f"tail_{kind}_addr": target}
                data = draw.integers(0, 256, new * self.d_pad * 2).astype(np.uint8)
                self.reads.append((source // 64, len(data) // 64))
                self.memory |= {source // 64 + i: word for i, word in enumerate(words_of(data))}
                self.write(target, data)
        elif random.random() < 0.5:
            # New rows without a place in the tail are not copied.
            self.fields |= {"new_tokens": 5, "new_k_addr": place(), "new_v_addr": place()}
        if chosen["state"]:
            self.fields["state_out"] = place()
            self.write(self.fields["state_out"], state_bytes(self.state, self.d_pad))
        if chosen["output"]:
            self.fields["out_addr"] = place()
            form = state_bytes if chosen["raw"] else output_bytes
            self.write(self.fields["out_addr"], form(self.state, self.d_pad))

    def write(self, address, data):
        self.words += [(address // 64 + i, word) for i, word in enumerate(words_of(data))]

    def bins(self, addr, row):
        """(bins, l_bins, seen, top) as bin_store and tile_top answer; a row that has seen nothing holds anything."""
        assert row >> 6 == self.parity
        row &= 63
        assert row < self.rows, "a row that the job does not have"
        if self.state.t[row] == rm.EMPTY_T:
            return (1 << 2400) - 1, (1 << 150) - 1, 0, 0x7FFFF
        per_row = {2: 4, 3: 8, 4: 8, 8: 16}[self.chunks]
        place = addr if self.big else addr & 511
        assert self.big or addr >> 9 == self.parity
        at_row, word = divmod(place, per_row)
        o, sums = self.state.wrapped()
        # (L, T) are asked for without a word of O.
        bins = (1 << 2400) - 1
        if at_row == row:
            columns = np.zeros((3, self.d_pad), np.int64)
            columns[:, : o.shape[2]] = o[row]
            bins = pack(columns[:, 16 * word : 16 * word + 16].reshape(-1).tolist(), 50)
        return bins, pack(sums[row].tolist(), 50), 1, int(self.state.t[row]) & 0xFFFFF


async def run(dut, random, plan, rates, lost=(), failing=(), stop=None):
    """(writes, fault or None, commands). `lost`: words that are read with an error; `failing`: numbers of writes that
    are answered with one."""
    bins_rate, cmd_rate, read_rate, write_rate = rates
    dut.job.value = int.from_bytes(rm.JOB.pack(**plan.fields), "little")
    dut.chunks.value, dut.parity.value, dut.big.value = plan.chunks, plan.parity, plan.big
    dut.start.value = 1
    dut.w_failed.value, dut.w_idle.value = 0, 1
    await cycles(dut)
    dut.start.value = 0
    wrote, flying, reads, asked, failed, held, give = [], [], [], [], None, None, False
    for cycle in range(12_000):
        f, cmd, r, w = (random.random() < rate for rate in (bins_rate, cmd_rate, read_rate, write_rate))
        # A word that has been offered stands until it is taken.
        give = bool(reads) and (give or r)
        dut.f_ready.value, dut.cmd_ready.value, dut.r_valid.value, dut.w_ready.value = f, cmd, give, w
        if give:
            dut.r_data.value, dut.r_error.value = plan.memory[reads[0]], reads[0] in lost
        # Answers come in order, some cycles later.
        if flying and random.random() < 0.3:
            number, word = flying.pop(0)
            if number in failing and failed is None:
                failed = word
        dut.w_idle.value, dut.w_failed.value = not flying, failed is not None
        if failed is not None:
            dut.w_failed_word.value = failed
        await settle()
        if int(dut.done.value):
            fault = FAULT.unpack(int(dut.fault.value)) if int(dut.faulty.value) else None
            assert fault or not flying, "done although words have not been answered"
            await cycles(dut)
            return wrote, fault, asked
        read = (int(dut.f_addr.value), int(dut.f_row.value)) if int(dut.f_valid.value) and f else None
        now = (int(dut.w_word.value), int(dut.w_data.value)) if int(dut.w_valid.value) else None
        assert held is None or now == held, "a word changed before it was taken"
        held = None if w else now
        if now and w:
            flying.append((len(wrote), now[0]))
            wrote.append(now)
        if int(dut.cmd_valid.value) and cmd:
            asked.append((int(dut.cmd_word.value), int(dut.cmd_count.value)))
            reads += [asked[-1][0] + i for i in range(asked[-1][1])]
        if give and int(dut.r_ready.value):
            reads.pop(0)
            give = False
        await cycles(dut)
        if read:
            dut.bins.value, dut.l_bins.value, dut.seen.value, dut.top.value = plan.bins(*read)
        if cycle == stop:
            return wrote, None, asked
    raise AssertionError("never done")


async def fresh(dut):
    await reset(dut, **QUIET, w_idle=1, r_data=0, bins=0, l_bins=0, seen=0, top=0, w_failed_word=0)
    # Pipelines without a reset of their own run empty.
    await cycles(dut, 10)


def drawn(random, number, **fixed):
    head_size = rm.HEAD_SIZES[number % len(rm.HEAD_SIZES)]
    rows = random.choice([1, 2, 3, 8, 9] if head_size < 100 else [1, 2])
    return Plan(random, head_size, rows, **fixed)


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(rates=RATES)
async def words_of_jobs(dut, rates):
    random = rng()
    await fresh(dut)
    for number in range(7):
        plan = drawn(random, number, **({"identify": True} if number == 6 else {}))
        wrote, fault, asked = await run(dut, random, plan, rates)
        assert fault is None
        assert asked == plan.reads
        assert wrote == plan.words


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def as_many_rows_as_can_be(dut):
    random = rng()
    await fresh(dut)
    for head_size, rows in ((64, 64), (256, 33)):
        plan = Plan(random, head_size, rows, tail=False, state=False, output=True, raw=False)
        wrote, fault, _ = await run(dut, random, plan, (1, 1, 1, 1))
        assert fault is None
        assert wrote == plan.words


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def error_replies(dut):
    """The first word of either kind is told; what comes after the part at hand is not written."""
    random = rng()
    await fresh(dut)
    codes = set()
    for number in range(16):
        plan = drawn(random, number, tail=True)
        order = [word + i for word, count in plan.reads for i in range(count)]
        lost = random.sample(order, min(3, len(order))) if number % 2 else []
        failing = [] if number % 2 else random.sample(range(len(plan.words)), 2)
        wrote, fault, _ = await run(dut, random, plan, random.choice(RATES), lost, failing)
        if lost:
            first = min(lost, key=order.index)
            want = Fault(rm.Status.AXI_READ, detail=rm.MASTER_CTL, address=first * 64)
            # K and V of the tail have the same number of words.
            half_way = len(order) // 2
            assert len(wrote) == (half_way if order.index(first) < half_way else len(order))
        else:
            want = Fault(rm.Status.AXI_WRITE, detail=rm.MASTER_OUT, address=plan.words[min(failing)][0] * 64)
        assert fault == fault_of(want)
        assert wrote == plan.words[: len(wrote)]
        codes.add(fault["code"])
        # list_control clears everything behind the readers after a fault.
        dut.rst.value = 1
        await cycles(dut, 64)
        dut.rst.value = 0
    assert len(codes) == 2


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def a_reset_in_any_cycle(dut):
    random = rng()
    await fresh(dut)
    for number in range(6):
        await run(dut, random, drawn(random, number), (1, 1, 1, 1), stop=random.randrange(1, 80))
        for name, value in QUIET.items():
            getattr(dut, name).value = value
        dut.rst.value = 1
        await cycles(dut, 10)
        dut.rst.value = 0
        await settle()
        assert not any(int(x.value) for x in (dut.w_valid, dut.cmd_valid, dut.done))
        plan = drawn(random, number + 1)
        wrote, fault, _ = await run(dut, random, plan, (0.9, 0.9, 0.9, 0.9))
        assert fault is None
        assert wrote == plan.words
