# SPDX-License-Identifier: Apache-2.0
"""Checkers of descriptors against `model_checks` and `model_descriptors`: sound structures, and some with bits or
fields changed. No test of its own: see `bench_header_check`, `bench_job_check`, `bench_segment_check`."""

import numpy as np
from clocked import cycles, outcome, reset, rng, start
from nearkv_driver import regmap as rm
from nearkv_emulation.model_checks import Window, Windows, check_header, check_job
from nearkv_emulation.model_descriptors import Segment, _segment, _starts_well, refuse_first
from nearkv_emulation.model_memory import Fault

from tests.support.jobs import padded
from tests.support.random_jobs import random_image

CASES = 300


def verdict(check, *arguments):
    """(bad, detail) of the model."""
    try:
        check(*arguments)
    except Fault as fault:
        return 1, fault.detail
    return 0, None


def changed(random, raw, fields):
    """Raw bytes with nothing, some bits, or some fields changed to values at an edge."""
    raw = bytearray(raw)
    kind = random.randrange(6)
    if kind == 0:
        return bytes(raw)
    if kind <= 2:
        for _ in range(kind):
            raw[random.randrange(len(raw))] ^= 1 << random.randrange(8)
        return bytes(raw)
    offset, nbytes = random.choice(sorted(fields.values()))
    old = int.from_bytes(raw[offset : offset + nbytes], "little")
    top = 1 << (8 * nbytes)
    edges = [0, 1, 7, 8, 63, 64, 65, 2**18, 2**21 - 1, 2**21, old + 1, old - 1, old + 64, old - 64, old + 8, top - 64]
    edges += [old + 4096, old - 4096, top - 1, top // 2]
    raw[offset : offset + nbytes] = (random.choice(edges) % top).to_bytes(nbytes, "little")
    return bytes(raw)


def layout(structure, nbytes):
    """{name: (offset, bytes)}; a field ends where the next one starts."""
    starts = sorted(structure.offset.values())
    widths = {a: min(8, b - a) for a, b in zip(starts, [*starts[1:], starts[-1] + 8], strict=True)}
    return {name: (at, 8 if widths[at] >= 8 else 4) for name, at in structure.offset.items()}


def images(random, n):
    for i in range(n):
        yield random_image(np.random.default_rng(random.getrandbits(32) + i), 80)


def little(raw):
    return int.from_bytes(raw, "little")


async def verdicts_of_headers(dut):
    random = rng()
    await reset(dut, start=0)
    seen = set()
    for image in images(random, CASES // 10):
        for _ in range(10):
            at = image.at(image.ctl)
            raw = changed(random, image.memory[at : at + 128].tobytes(), layout(rm.LIST, 128))
            registers = [image.kv, image.ctl, image.out]
            if random.random() < 0.2:
                registers[random.randrange(3)] ^= 1 << random.randrange(64)
            dut.header.value = little(raw)
            dut.kv.value, dut.ctl.value, dut.out.value = registers
            dut.start.value = 1
            await cycles(dut)
            dut.start.value = 0
            want = verdict(check_header, raw, *registers)
            got = await outcome(dut)
            assert (got[0], got[1] if got[0] else None) == want, (raw.hex(), [hex(r) for r in registers])
            seen.add(want)
    assert len(seen) > 12, seen


async def verdicts_of_jobs(dut):
    random = rng()
    await reset(dut, start=0)
    seen = set()
    for image in images(random, CASES // 10):
        at = image.at(image.ctl)
        header = rm.LIST.unpack(image.memory[at : at + 128].tobytes())
        windows = Windows(*(Window(header[f"{n}_window"], header[f"{n}_window_nbytes"]) for n in ("kv", "ctl", "out")))
        for n in ("ctl", "out"):
            getattr(dut, f"{n}_window").value = header[f"{n}_window"]
            getattr(dut, f"{n}_window_nbytes").value = header[f"{n}_window_nbytes"]
        for _ in range(10):
            start = at + 128 + 256 * random.randrange(len(image.jobs))
            raw = changed(random, image.memory[start : start + 256].tobytes(), layout(rm.JOB, 256))
            dut.job.value = little(raw)
            dut.start.value = 1
            await cycles(dut)
            dut.start.value = 0
            want = verdict(check_job, raw, windows)
            got = await outcome(dut)
            assert (got[0], got[1] if got[0] else None) == want, raw.hex()
            seen.add(want)
            job = rm.JOB.unpack(raw)
            if not got[0] and job["opcode"] == rm.Opcode.ATTEND:
                d_pad = padded(job["head_size"])
                sizes = (int(dut.chunks.value), int(dut.half_last.value), int(dut.group.value))
                assert sizes == (d_pad // 32, job["head_size"] % 32 != 0, job["rows"] // job["query_tokens"])
    assert len(seen) > 15, seen


async def verdicts_of_segments(dut):
    random = rng()
    start(dut)
    dut.start.value, dut.restart.value, dut.is_new.value = 0, 0, 0
    await cycles(dut, 2)
    seen = set()
    for image in images(random, CASES // 4):
        at = image.at(image.ctl)
        header = rm.LIST.unpack(image.memory[at : at + 128].tobytes())
        windows = Windows(*(Window(header[f"{n}_window"], header[f"{n}_window_nbytes"]) for n in ("kv", "ctl", "out")))
        for n in ("kv", "ctl"):
            getattr(dut, f"{n}_window").value = header[f"{n}_window"]
            getattr(dut, f"{n}_window_nbytes").value = header[f"{n}_window_nbytes"]
        for job, fields in zip(image.jobs, image.placed, strict=True):
            if job.identify:
                continue
            dut.chunks.value = padded(job.head_size) // 32
            dut.restart.value = 1
            await cycles(dut)
            dut.restart.value = 0
            before = None
            for index in range(len(job.segments)):
                place = image.at(fields["segments_addr"]) + 64 * index
                raw = changed(random, image.memory[place : place + 64].tobytes(), layout(rm.SEGMENT, 64))
                f = rm.SEGMENT.unpack(raw)
                row = padded(job.head_size) * 2
                names = ("tokens", "first_position", "k_addr", "v_addr", "crc_addr")
                segment = Segment(index, *(f[n] for n in names), row)
                want = verdict(refuse_first, rm.Status.BAD_SEGMENT, _segment(raw, segment, before, windows))
                dut.segment.value, dut.is_new.value, dut.start.value = little(raw), 0, 1
                await cycles(dut)
                dut.start.value = 0
                got = await outcome(dut)
                assert (got[0], got[1] if got[0] else None) == want, (raw.hex(), before)
                seen.add(want)
                before = segment
                if got[0]:
                    break
            else:
                first = random.choice([job.new.first if job.new else 0, 16, 17, 2**21 - 1, before.end if before else 3])
                tokens = random.randint(1, 64)
                new = Segment(9, tokens, first, 0, 0, 0, 0, True)
                dut.segment.value, dut.is_new.value, dut.start.value = tokens | first << 32, 1, 1
                await cycles(dut)
                dut.start.value = 0
                assert (await outcome(dut))[0] == (not _starts_well(new, before)), (tokens, first, before)
    assert len(seen) > 5, seen
