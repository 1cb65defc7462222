# SPDX-License-Identifier: Apache-2.0
"""job_prepare with header_load, job_check, segment_load and job_fetch: random lists, damaged lists and lists with a
word that cannot be read, against the model's checks in the contract's order; stalls of all channels, resets."""

import cocotb
import numpy as np
from clocked import cycles, reset, rng, settle
from descriptor_model import LIMITS, QUERY, STATE, Model
from nearkv_driver import regmap as rm
from nearkv_emulation.model_checks import padded
from nearkv_emulation.model_memory import Fault
from nearkv_emulation.model_state import state_nbytes
from wires import FAULT, fault_of, fault_word

from tests.support.jobs import Segment, build
from tests.support.mutations import DESCRIPTOR_GROUPS, bad_limits, bad_segments, sound
from tests.support.random_jobs import half, random_image, random_job

# rates of the reader's commands and words, of the queue of near segments, of the loaders, of free and alone
RATES = [(1, 1, 1, 1, 1), (0.2, 0.9, 0.9, 0.9, 0.1), (0.9, 0.4, 0.3, 0.5, 0.3)]
QUIET = ("list_start", "job_start", "free", "alone", "cmd_ready", "s_valid", "s_error", "near_ready", "load_ready")
QUIET += ("load_done", "load_bad")
NEAR = 16


class Harness:
    """Reader, queue of near segments and loaders; `run` prepares the list or a job."""

    def __init__(self, dut, random, rates, image, lost=None):
        self.dut, self.random, self.rates = dut, random, rates
        self.image, self.lost, self.model = image, lost, Model(image, lost)
        self.words, self.give = [], False
        self.big_before = False

    def word(self, address):
        assert self.image.base <= address < self.image.base + len(self.image.memory), f"stray read of {address:#x}"
        at = self.image.at(address)
        return int.from_bytes(self.image.memory[at : at + 64].tobytes(), "little")

    async def run(self, index=None, stop=None):
        """Fault or None, and what was seen on the way."""
        dut, random = self.dut, self.random
        job = self.model.stages(index)[0] if index is not None else None
        attend = job is not None and job["opcode"] == rm.Opcode.ATTEND
        loads = self.model.loads(job) if attend else {}
        seen = {"near": [], "sound": 0, "started": [], "entered": False, "walkable": None, "all": None}
        load, first = None, True
        dut.kv.value, dut.ctl.value, dut.out.value = self.image.kv, self.image.ctl, self.image.out
        for cycle in range(5000):
            cmd, source, near, loader, level = (random.random() < rate for rate in self.rates)
            free, alone = random.random() < self.rates[4], level
            dut.list_start.value, dut.job_start.value = first and index is None, first and index is not None
            if index is not None:
                dut.job_index.value = index
            first = False
            self.give = bool(self.words) and (self.give or source)
            # The queue of near segments has room for them and for no more.
            near = near and len(seen["near"]) < NEAR
            dut.cmd_ready.value, dut.s_valid.value, dut.near_ready.value = cmd, self.give, near
            dut.free.value, dut.alone.value = free, alone
            if self.give:
                dut.s_data.value, dut.s_error.value = self.word(self.words[0]), self.words[0] == self.lost
            taking = load is not None and load["left"] > 0
            done = load is not None and not taking and loader
            dut.load_ready.value, dut.load_done.value, dut.load_bad.value = taking and loader, done, 0
            if done:
                try:
                    loads[load["kind"]][2]()
                except Fault as fault:
                    dut.load_bad.value, dut.load_fault.value = 1, fault_word(fault)
                load = None
            await settle()
            if int(dut.enters.value):
                assert free
                assert alone or not self.waits(job), "a job begins beside one that it must wait for"
                seen["entered"] = True
            started = int(dut.load_start.value)
            if started:
                assert load is None
                kind = {1: LIMITS, 2: STATE, 4: QUERY}[started]
                load = {"kind": kind, "left": loads[kind][1], "at": loads[kind][0]}
                seen["started"].append(kind)
            taken = self.give and int(dut.s_ready.value)
            if taken:
                at = self.words.pop(0)
                self.give = False
                if taking and loader:
                    assert at == load["at"], "a loader is given another word"
                    load["at"] += 64
                    load["left"] -= 1
            if int(dut.near_valid.value) and near:
                assert taken, "a segment is handed over that was not taken"
                seen["near"].append(int(dut.near_data.value))
            seen["sound"] += int(dut.near_sound.value)
            assert seen["sound"] <= len(seen["near"])
            for name, port in (("walkable", dut.walkable), ("all", dut.sound)):
                if seen["entered"] and seen[name] is None and int(port.value):
                    seen[name] = cycle
            if int(dut.cmd_valid.value) and cmd:
                at = int(dut.cmd_word.value) * 64
                self.words += [at + 64 * i for i in range(int(dut.cmd_count.value))]
            ended = int(dut.done.value)
            if ended:
                fault = FAULT.unpack(int(dut.fault.value)) if int(dut.faulty.value) else None
            await cycles(dut)
            if ended:
                return fault, seen
            if cycle == stop:
                return None, seen
        raise AssertionError("never done")

    def waits(self, job):
        return self.is_big(job) or self.big_before or job["state_in"] != 0

    @staticmethod
    def is_big(job):
        return padded(job["head_size"]) == 256 and job["rows"] > 32

    async def whole(self):
        """The list and its jobs up to the first fault; its code or None."""
        dut, model = self.dut, self.model
        fault, _ = await self.run()
        if model.fault:
            assert fault == fault_of(model.fault)
            return model.fault.code
        assert fault is None
        assert int(dut.jobs.value) == model.jobs
        for index in range(model.jobs):
            job, segments, want = model.stages(index)
            fault, seen = await self.run(index)
            assert fault == (fault_of(want) if want else None), index
            self.judge(index, job, segments, want, seen)
            if want:
                return want.code
            self.big_before = job["opcode"] == rm.Opcode.ATTEND and self.is_big(job)
        assert not self.words, "words were asked for that nobody took"
        return None

    def judge(self, index, job, segments, fault, seen):
        """What the walk is given of a job, and when."""
        dut = self.dut
        code = fault.code if fault else None
        if code in (rm.Status.BAD_JOB, rm.Status.AXI_READ) and not seen["entered"]:
            return
        assert seen["entered"]
        if fault is None:
            at = self.image.at(self.model.raw(index))
            assert int(dut.job.value) == int.from_bytes(self.image.memory[at : at + 256].tobytes(), "little")
        if job["opcode"] == rm.Opcode.IDENTIFY:
            assert seen["walkable"] is not None
            assert not seen["started"]
            return
        stored = [self.word(job["segments_addr"] + 64 * i) for i in range(job["segments"])]
        assert seen["near"] == stored[: len(seen["near"])]
        # All segments are sound exactly when the walk is told so; the first of them each before that.
        assert (seen["all"] is not None) == (segments is not None)
        if segments is not None:
            assert seen["sound"] == len(seen["near"]) == min(NEAR, len(stored))
        elif code == rm.Status.BAD_SEGMENT:
            assert seen["sound"] == min(NEAR, fault.segment)
        # Limits are sound before anything is walked, state and q need not be.
        if code == rm.Status.BAD_LIMIT:
            assert seen["walkable"] is None
        if seen["walkable"] is not None and seen["all"] is not None:
            assert seen["walkable"] < seen["all"]
        kinds = [LIMITS, *([STATE] if job["state_in"] else []), QUERY]
        assert seen["started"] == kinds[: len(seen["started"])]
        if fault is None:
            assert seen["started"] == kinds
            assert int(dut.half_last.value) == (job["head_size"] % 32 != 0)
            sizes = (int(dut.chunks.value), int(dut.group.value), int(dut.big.value))
            assert sizes == (padded(job["head_size"]) // 32, job["rows"] // job["query_tokens"], self.is_big(job))


async def fresh(dut):
    await reset(dut, **dict.fromkeys(QUIET, 0))
    await cycles(dut)


async def again(dut):
    """As list_control after a list: readers are flushed, everything behind them starts anew."""
    for name in QUIET:
        getattr(dut, name).value = 0
    dut.rst.value = 1
    await cycles(dut, 2)
    dut.rst.value = 0


def big_image(draw):
    """Jobs that fill the bins, and one with more segments than are handed over."""
    rows = [half(draw, 16 * i + 16, 64) for i in range(2)]
    many = [Segment(32 * i, rows[i % 2][:16], rows[i % 2][:16]) for i in range(NEAR + 5)]
    first = random_job(draw, 20, head_size=256)
    big = type(first)(draw.normal(size=(33, 256)).astype(np.float32), [(0, 9)], 0.1)
    plain = type(first)(draw.normal(size=(2, 64)).astype(np.float32), [(0, 9)], 0.1, many)
    return build([plain, big, plain])


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(rates=RATES)
async def sound_lists(dut, rates):
    random = rng()
    await fresh(dut)
    draw = np.random.default_rng(20)
    for image in [big_image(draw), sound(), *(random_image(draw, 60) for _ in range(6))]:
        code = await Harness(dut, random, rates, image).whole()
        assert code in (None, rm.Status.BAD_STATE)
        await again(dut)


@cocotb.test(timeout_time=9, timeout_unit="ms")
async def damaged_lists(dut):
    """One of five lists of every kind of damage; the contract's order is the model's."""
    random = rng()
    await fresh(dut)
    codes = {}
    for group in DESCRIPTOR_GROUPS:
        for broken in list(group(sound()))[random.randrange(5) :: 5]:
            code = await Harness(dut, random, random.choice(RATES), broken.image).whole()
            assert code == broken.code, broken.name
            codes[code] = codes.get(code, 0) + 1
            await again(dut)
    assert len(codes) == 4, codes


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def words_that_cannot_be_read(dut):
    """Any word of a list: it is told when its turn comes, and outranks what the words of its structure say."""
    random = rng()
    await fresh(dut)
    image = sound()
    fields = image.placed[1]
    starts = {image.ctl: 2 + 4 * 3, fields["limits_addr"]: 1, fields["segments_addr"]: 3, fields["q_addr"]: 24}
    starts[fields["state_in"]] = state_nbytes(4, 96) // 64
    seen = set()
    for start, count in starts.items():
        for word in sorted({0, count - 1, *(random.randrange(count) for _ in range(6))}):
            lost = start + 64 * word
            assert await Harness(dut, random, random.choice(RATES), image, lost).whole() == rm.Status.AXI_READ
            seen.add(lost)
            await again(dut)
    assert len(seen) > 15


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def damaged_and_not_readable(dut):
    """Both in one structure: an error reply outranks what words say, but segments are judged one after the other."""
    random = rng()
    await fresh(dut)
    codes = {}
    segments = [broken for broken in bad_segments(sound()) if broken.expected.get("segment") in (0, 2)]
    for broken in [*bad_limits(sound()), *random.sample(segments, 12)]:
        fields = broken.image.placed[1]
        if broken.code == rm.Status.BAD_LIMIT:
            lost = fields["limits_addr"]
        else:
            lost = fields["segments_addr"] + 64 * random.choice([0, 1, 1, 2])
        harness = Harness(dut, random, random.choice(RATES), broken.image, lost)
        code = await harness.whole()
        codes[broken.code, code] = codes.get((broken.code, code), 0) + 1
        await again(dut)
    assert len(codes) == 3, codes


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def a_reset_in_any_cycle(dut):
    random = rng()
    await fresh(dut)
    image = sound()
    for number in range(10):
        harness = Harness(dut, random, (1, 1, 1, 1, 1), image)
        await harness.run(stop=random.randrange(1, 30) if number % 2 else None)
        if not number % 2:
            await harness.run(0, stop=random.randrange(1, 120))
        await again(dut)
        await settle()
        assert not any(int(x.value) for x in (dut.done, dut.cmd_valid, dut.walkable, dut.near_valid))
        assert await Harness(dut, random, (0.9, 0.9, 0.9, 0.9, 0.9), image).whole() is None
        await again(dut)
