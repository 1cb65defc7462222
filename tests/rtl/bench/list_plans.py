# SPDX-License-Identifier: Apache-2.0
"""Random lists whose jobs end well or fail at a chosen place, and the statuses that the contract asks for. No test of
its own: see `bench_list_control`."""

from dataclasses import dataclass

from nearkv_driver import regmap as rm
from nearkv_emulation.model_memory import Fault

# where a job fails: its descriptors; what the walk reads again; K or V; its results; its status
PLACES = ("prepare", "late", "walk", "step", "finish", "status")
BEATS = 1000


@dataclass
class Job:
    """What becomes of a job. `wait`: it may begin only when those before have been written."""

    fails: str | None
    fault: Fault | None
    beats: int
    saturated: bool
    wait: bool


@dataclass
class Plan:
    """A list: its jobs, the fault of its header, the pointers KV, CTL and OUT."""

    jobs: list
    header: Fault | None
    pointers: tuple


def drawn_fault(random, place):
    if place == "prepare":
        return Fault(rm.Status.BAD_JOB, detail=random.randrange(256))
    if place == "late":
        return Fault(rm.Status.NONFINITE_Q, kind=rm.Kind.Q, position=random.randrange(64))
    if place == "walk":
        return Fault(rm.Status.AXI_READ, detail=rm.MASTER_CTL, address=random.getrandbits(58) << 6)
    if place == "step":
        return Fault(rm.Status.CRC_MISMATCH, segment=random.randrange(99), page=random.randrange(99), kind=rm.Kind.V)
    if place == "finish":
        return Fault(rm.Status.AXI_WRITE, detail=rm.MASTER_OUT, address=random.getrandbits(58) << 6)
    return None


def drawn(random):
    count = random.choice([1, 1, 2, 3, 5, 8])
    broken = random.randrange(count) if random.random() < 0.75 else None
    jobs = []
    for i in range(count):
        # What lies behind the fault must not matter: it may be broken too.
        breaks = broken is not None and (i == broken or (i > broken and random.random() < 0.4))
        place = random.choice(PLACES) if breaks else None
        wait = random.random() < 0.2
        jobs.append(Job(place, drawn_fault(random, place), random.randrange(1, BEATS), random.random() < 0.3, wait))
    header = Fault(rm.Status.BAD_LIST, detail=random.randrange(128)) if random.random() < 0.1 else None
    return Plan(jobs, header, tuple(random.getrandbits(58) << 6 for _ in range(3)))


def expected(plan):
    """[(word, fields)] of the statuses that the contract asks for; cycles are left out."""
    na, word = rm.NOT_APPLICABLE, plan.pointers[2] // 64
    empty = dict.fromkeys(("segment", "page", "kind", "position", "detail"), na)
    empty |= {"flags": 0, "beats": 0, "address": 0}

    def told(index, fault, job, beats):
        names = ("code", "segment", "page", "kind", "position", "detail", "address")
        fields = {name: int(getattr(fault, name)) for name in names}
        return word + index, empty | fields | {"job": job, "beats": beats}

    if plan.header:
        return [told(0, plan.header, na, 0)]
    statuses, failed = [], False
    for index, job in enumerate(plan.jobs):
        if failed:
            statuses.append((word + index, empty | {"code": rm.Status.NOT_RUN, "job": index}))
            continue
        if job.fault:
            statuses.append(told(index, job.fault, index, 0 if job.fails in ("prepare", "late") else job.beats))
        else:
            ok = {"code": rm.Status.OK, "job": index, "beats": job.beats, "flags": int(job.saturated)}
            statuses.append((word + index, empty | ok))
        failed = job.fails is not None
    return statuses
