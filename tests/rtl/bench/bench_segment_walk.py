# SPDX-License-Identifier: Apache-2.0
"""segment_walk: pieces and checksums of random jobs against `model_walk`, through stalls of every channel; a job that
is refused on the way, a descriptor that cannot be read again, resets."""

import cocotb
from clocked import cycles, reset, rng, settle
from nearkv_driver import regmap as rm
from walks import LENGTHS, WORD, empty_piece, pieces, random_walk
from wires import PIECE

RATES = [(1, 1, 1, 1), (0.2, 0.9, 0.9, 0.9), (0.9, 0.9, 0.3, 0.9), (0.9, 0.9, 0.9, 0.2), (0.5, 0.5, 0.5, 0.5)]
NEAR = 16
QUIET = {"job_valid": 0, "sound": 0, "refused": 0, "near_valid": 0, "cmd_ready": 0, "far_valid": 0, "far_error": 0}


def descriptor(walk, table):
    """The job as the walk reads it."""
    new = next((s for s in walk.segments if s.new), None)
    fields = {"opcode": rm.Opcode.ATTEND, "rows": walk.rows, "segments": len(walk.stored), "segments_addr": table}
    if new:
        fields |= {"new_tokens": new.tokens, "new_first": new.first}
        fields |= {"new_k_addr": new.k_addr, "new_v_addr": new.v_addr}
    return int.from_bytes(rm.JOB.pack(**fields), "little")


def packed(segment):
    """A segment as it is stored."""
    fields = {"tokens": segment.tokens, "first_position": segment.first, "k_addr": segment.k_addr}
    fields |= {"v_addr": segment.v_addr, "crc_addr": segment.crc_addr}
    return int.from_bytes(rm.SEGMENT.pack(**fields), "little")


def checksums(walk):
    """(address / 8, pages) of every checked segment."""
    found = []
    for s in walk.segments:
        if s.crc_addr:
            start, end = s.pages(s.k_addr)
            found.append((s.crc_addr // 8, (end - start) // rm.PAGE_BYTES))
    return found


def judged(piece):
    """A piece without what says nothing: the page where nothing is checked."""
    return piece if piece["checked"] else piece | {"page": 0}


class Harness:
    """Everything around the module; `run` walks one job and returns what came of it."""

    def __init__(self, dut, random, rates=(0.7, 0.7, 0.7, 0.7), late=False):
        self.dut, self.random, self.rates, self.late = dut, random, rates, late

    async def run(self, walk, refuse=None, lost=None, stop=None, early=False):
        """`refuse`, `stop`: cycle of a refusal, of the end; `lost`: a far segment that cannot be read again; `early`:
        all segments are sound before the walk begins."""
        dut, random = self.dut, self.random
        table = random.randrange(2**40) * WORD
        near, far = [packed(s) for s in walk.stored[:NEAR]], None
        told, crcs, held, taken, sounded = [], [], None, False, early
        dut.job.value, dut.chunks.value = descriptor(walk, table), walk.chunks
        dut.half_last.value, dut.parity.value = walk.half_last, walk.parity
        for cycle in range(20_000):
            source, cmd, crc, take = (random.random() < rate for rate in self.rates)
            refused = refuse is not None and cycle >= refuse
            dut.job_valid.value = not taken
            # The level holds until the next job is prepared, which may begin as soon as this one has been taken.
            pulse = taken and not sounded and random.random() < 0.1 and not refused and not (self.late and near)
            dut.sound.value = (early and not taken) or pulse
            sounded |= pulse
            dut.refused.value = refused
            give = bool(near) and source and not refused
            dut.near_valid.value = give
            if give:
                dut.near_data.value = near[0]
            dut.cmd_ready.value = cmd
            give_far = bool(far) and source
            dut.far_valid.value = give_far
            if give_far:
                dut.far_data.value, dut.far_error.value = packed(walk.stored[far[0]]), far[0] == lost
            dut.crc_ready.value, dut.piece_ready.value = crc, take
            await settle()
            assert not int(dut.job_ready.value) or not taken, "ready for a job while one is walked"
            if not taken:
                taken = bool(int(dut.job_ready.value))
            if give and int(dut.near_ready.value):
                near.pop(0)
            if give_far and int(dut.far_ready.value):
                assert sounded, "a descriptor was taken before all were found sound"
                far.pop(0)
            if int(dut.cmd_valid.value) and cmd:
                at, count = int(dut.cmd_word.value), int(dut.cmd_count.value)
                assert far is None, "asked twice"
                assert (at, count) == (table // WORD + NEAR, len(walk.stored) - NEAR)
                far = list(range(NEAR, len(walk.stored)))
            if int(dut.crc_valid.value) and crc:
                crcs.append((int(dut.crc_entry.value), int(dut.crc_pages.value)))
            now = int(dut.piece.value) if int(dut.piece_valid.value) else None
            # A refusal may end the piece that waits; nothing else may change it.
            assert held is None or refused or now is None or now == held, "a piece changed before it was taken"
            held = None if take else now
            if now is not None and take:
                told.append(judged(PIECE.unpack(now)))
            await cycles(dut)
            if stop == cycle or (told and told[-1]["job_last"]):
                break
        dut.job_valid.value, dut.near_valid.value, dut.far_valid.value = 0, 0, 0
        await settle()
        return told, crcs, table


def flat(walk):
    return [{name: int(value) for name, value in piece.items()} for visit in pieces(walk) for piece in visit]


async def fresh(dut):
    await reset(dut, **QUIET, crc_ready=0, piece_ready=0)
    await cycles(dut)


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(rates=RATES)
async def pieces_and_checksums(dut, rates):
    random = rng()
    await fresh(dut)
    harness = Harness(dut, random, rates)
    walked = 0
    for number in range(14):
        walk = random_walk(random, number % 2, count=None if number else 20)
        told, crcs, _ = await harness.run(walk, early=random.random() < 0.5)
        assert told == flat(walk)
        assert crcs == checksums(walk)
        walked += len(told)
        assert int(dut.idle.value)
        assert not int(dut.failed.value)
    assert walked > 40


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def many_segments_and_long_ones(dut):
    random = rng()
    await fresh(dut)
    # All are found sound when the walk waits for the first that it has to read again.
    harness = Harness(dut, random, late=True)
    for lengths, count in (((1,), 130), (LENGTHS, NEAR), (LENGTHS, NEAR + 1), ((40_000,), 2)):
        walk = random_walk(random, 1, lengths, count)
        told, crcs, _ = await harness.run(walk)
        assert told == flat(walk)
        assert crcs == checksums(walk)


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def a_refused_job_ends_its_visit(dut):
    """What has been told of it stands, and then nothing but the end of the visit comes."""
    random = rng()
    await fresh(dut)
    ends = set()
    for number in range(40):
        walk = random_walk(random, number % 2)
        told, _, _ = await Harness(dut, random).run(walk, refuse=random.randrange(30))
        whole = flat(walk)
        *before, last = told
        assert before == whole[: len(before)]
        if len(told) <= len(whole) and last == whole[len(before)]:
            ends.add("whole")
        elif last["tokens"]:
            assert last == whole[len(before)] | {"visit_last": 1, "job_last": 1}
            ends.add("cut")
        else:
            first = not before or before[-1]["visit_last"]
            for name in ("visit_first", "visit_last", "job_last", "parity", "is_new", "checked", "before", "after"):
                assert last[name] == empty_piece(walk, 0, visit_first=int(first))[name], name
            ends.add("nothing")
        # The queue in front of the module is cleared together with it.
        dut.refused.value, dut.rst.value = 0, 1
        await cycles(dut)
        dut.rst.value = 0
        await cycles(dut)
    assert ends == {"whole", "cut", "nothing"}


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def a_descriptor_that_cannot_be_read_again(dut):
    random = rng()
    for _ in range(3):
        await fresh(dut)
        walk = random_walk(random, 0, (1, 16, 17), NEAR + 6)
        lost = NEAR + random.randrange(6)
        told, _, table = await Harness(dut, random).run(walk, lost=lost)
        assert int(dut.failed.value)
        assert int(dut.failed_word.value) == table // WORD + lost
        assert all(piece["segment"] < lost for piece in told if piece["tokens"])
        assert told[-1]["visit_last"]
        # list_control takes the last job that was handed over for the one that failed.
        dut.job_valid.value = 1
        for _ in range(5):
            await settle()
            assert not int(dut.job_ready.value), "another job is taken after a failure"
            assert int(dut.idle.value), "no piece will come, and V of what is ahead waits for one"
            await cycles(dut)


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def a_reset_in_any_cycle(dut):
    random = rng()
    await fresh(dut)
    for number in range(15):
        await Harness(dut, random).run(random_walk(random, 1), stop=random.randrange(40))
        dut.rst.value = 1
        await cycles(dut)
        dut.rst.value = 0
        await settle()
        assert not int(dut.piece_valid.value)
        assert int(dut.job_ready.value)
        walk = random_walk(random, number % 2)
        told, crcs, _ = await Harness(dut, random, (1, 1, 1, 1)).run(walk)
        assert told == flat(walk)
        assert crcs == checksums(walk)
