# SPDX-License-Identifier: Apache-2.0
"""step_judge: the first fault in the contract's order (K, then V, visit by visit; error reply, checksum, Inf or NaN),
the words of each job and its end, for random steps that come in the order of the reads, with stalls of all inputs."""

from dataclasses import dataclass

import cocotb
from clocked import cycles, reset, rng, settle
from nearkv_driver import regmap as rm
from nearkv_emulation.model_memory import Fault
from wires import FAULT, RECORD, fault_of

WORDS = 4 * 2**11


@dataclass
class Step:
    """What one K or V step shows: pages [(segment, page, crc, expected)], checksums that could not be read, an error
    reply (by the reader of new rows, word, words before it), the first Inf or NaN (segment, position)."""

    is_v: int
    job_last: int
    pages: list
    lost: set
    error: tuple | None
    nonfinite: tuple | None
    words: int

    def fault(self, crc_error_word):
        """By docs/kernel-contract.md, "The walk"."""
        kind = rm.Kind.V if self.is_v else rm.Kind.K
        if self.error:
            new, word, _ = self.error
            return Fault(rm.Status.AXI_READ, detail=rm.MASTER_CTL if new else rm.MASTER_KV, address=word * 64)
        if self.lost:
            return Fault(rm.Status.AXI_READ, detail=rm.MASTER_CTL, address=crc_error_word * 64)
        for segment, page, crc, expected in self.pages:
            if crc != expected:
                return Fault(rm.Status.CRC_MISMATCH, segment=segment, page=page, kind=kind)
        if self.nonfinite:
            segment, position = self.nonfinite
            return Fault(rm.Status.NONFINITE_KV, segment=segment, kind=kind, position=position)
        return None


def drawn_step(random, is_v, job_last, trouble):
    pages, page, segment = [], random.randrange(2**19 - 40), random.randrange(2**17)
    for _ in range(random.choice([0, 0, 1, 2, 3, 32])):
        crc = random.getrandbits(32)
        bad = random.random() < trouble
        pages.append((segment, page, crc, crc ^ (1 << random.randrange(32) if bad else 0)))
        page += 1
        if random.random() < 0.2:
            segment, page = segment + 1, random.randrange(100)
    lost = {i for i in range(len(pages)) if random.random() < trouble / 2}
    words = random.randint(0, WORDS)
    error = (
        (random.randrange(2), random.getrandbits(58), random.randint(0, words)) if random.random() < trouble else None
    )
    nonfinite = (random.randrange(2**17), random.randrange(2**21)) if random.random() < trouble else None
    return Step(is_v, job_last, pages, lost, error, nonfinite, words)


def records(random, step):
    """The records of a step: one per page, the last of them at the end of the step or before it."""
    merged = bool(step.pages) and random.random() < 0.5
    count = len(step.pages) + (not merged)
    shown = {name: random.randrange(count) for name in ("error", "nonfinite")}
    told = []
    for i in range(count):
        page = i < len(step.pages)
        segment, number, crc, _ = step.pages[i] if page else (random.getrandbits(18), random.getrandbits(19), 0, 0)
        error = step.error if step.error and i >= shown["error"] else None
        nonfinite = step.nonfinite if step.nonfinite and i >= shown["nonfinite"] else None
        end = i == count - 1
        fields = {"is_v": step.is_v, "page_end": page, "crc": crc, "segment": segment, "page": number, "step_end": end}
        fields |= {"job_last": step.job_last, "error": bool(error), "nonfinite": bool(nonfinite)}
        new, word, before = error or (0, random.getrandbits(58), 0)
        at, position = nonfinite or (random.getrandbits(18), 0)
        fields |= {"error_new": new, "error_word": word, "error_words": before}
        fields |= {"nonfinite_segment": at, "nonfinite_position": position}
        told.append(RECORD.pack(**fields, words=step.words if end else random.randint(0, step.words)))
    return told


def ordered(visits):
    """Steps in the order of the reads: K of the next visit before V of this one."""
    k, v = [pair[0] for pair in visits], [pair[1] for pair in visits]
    return [*k[:1], *(step for pair in zip(k[1:], v, strict=False) for step in pair), *v[-1:]]


def verdicts(visits, crc_error_word):
    """[beats] of the jobs that end, then the fault and the beats up to it, if any."""
    sound, beats = [], 0
    for visit in visits:
        for step in visit:
            fault = step.fault(crc_error_word)
            beats += step.error[2] if step.error else step.words
            if fault:
                return sound, fault_of(fault), beats
        if visit[1].job_last:
            sound.append(beats)
            beats = 0
    return sound, None, None


def drawn(random, trouble):
    visits = []
    for _ in range(random.randint(1, 4)):
        count = random.randint(1, 4)
        for i in range(count):
            visits.append([drawn_step(random, kind, i == count - 1, trouble) for kind in (0, 1)])
    return visits


async def judged(dut, random, visits, rates, crc_error_word, stop=None):
    """Runs all steps; ([beats] of jobs, fault or None, beats with it)."""
    steps = ordered(visits)
    listed = [record for step in steps for record in records(random, step)]
    crcs = [[], []]
    for step in steps:
        for i, page in enumerate(step.pages):
            crcs[step.is_v].append((i in step.lost) << 32 | page[3])
    sound, waiting, after = [], False, 0
    dut.crc_error_word.value = crc_error_word
    for cycle in range(5000):
        give, k, v, take = (random.random() < rate for rate in rates)
        give, k, v = give and bool(listed), k and bool(crcs[0]), v and bool(crcs[1])
        dut.record_valid.value, dut.k_crc_valid.value, dut.v_crc_valid.value = give, k, v
        if give:
            dut.record.value = listed[0]
        if k:
            dut.k_crc.value = crcs[0][0]
        if v:
            dut.v_crc.value = crcs[1][0]
        dut.job_taken.value = 0
        await settle()
        now = int(dut.job_sound.value)
        assert now or not waiting, "the end of a job was taken back"
        waiting = bool(now)
        if waiting and take:
            sound.append(int(dut.beats.value))
            dut.job_taken.value = 1
            waiting = False
            await settle()
        if give and int(dut.record_ready.value):
            listed.pop(0)
        for valid, ready, kind in ((k, dut.k_crc_ready, 0), (v, dut.v_crc_ready, 1)):
            if valid and int(ready.value):
                crcs[kind].pop(0)
        assert not (int(dut.faulty.value) and waiting), "a job is both sound and at fault"
        await cycles(dut)
        after = after + 1 if int(dut.faulty.value) or not listed else 0
        if (after == 20 and not waiting) or cycle == stop:
            break
    dut.job_taken.value = 0
    await settle()
    if not int(dut.faulty.value):
        return sound, None, None
    return sound, FAULT.unpack(int(dut.fault.value)), int(dut.beats.value)


async def again(dut):
    for name in ("record_valid", "k_crc_valid", "v_crc_valid", "job_taken"):
        getattr(dut, name).value = 0
    dut.rst.value = 1
    await cycles(dut)
    dut.rst.value = 0


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(rates=[(1, 1, 1, 1), (0.5, 0.9, 0.9, 0.9), (0.9, 0.4, 0.9, 0.3), (0.9, 0.9, 0.3, 0.9)])
async def sound_jobs_and_first_faults(dut, rates):
    random = rng()
    await reset(dut, record_valid=0, k_crc_valid=0, v_crc_valid=0, job_taken=0)
    seen = set()
    for number in range(28):
        visits = drawn(random, 0 if number % 4 == 0 else random.choice([0.01, 0.05, 0.2]))
        word = random.getrandbits(58)
        want = verdicts(visits, word)
        assert await judged(dut, random, visits, rates, word) == want
        seen.add((want[1]["code"], want[1]["kind"]) if want[1] else None)
        await again(dut)
    assert len(seen) > 3, seen


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def a_fault_stays_until_reset(dut):
    """Whatever comes behind it; then a clean list is judged as such."""
    random = rng()
    await reset(dut, record_valid=0, k_crc_valid=0, v_crc_valid=0, job_taken=0)
    for _ in range(12):
        broken = drawn(random, 0.5)
        await judged(dut, random, broken, (1, 1, 1, 1), 1, stop=random.randrange(60))
        await again(dut)
        assert not int(dut.faulty.value)
        clean = drawn(random, 0)
        assert await judged(dut, random, clean, (0.9, 0.9, 0.9, 0.9), 2) == verdicts(clean, 2)
