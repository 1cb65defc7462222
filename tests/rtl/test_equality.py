# SPDX-License-Identifier: Apache-2.0
"""The RTL kernel leaves the same bytes in memory as the NumPy model: golden vectors, random jobs, damage, stalls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from nearkv_driver import regmap as rm
from nearkv_emulation.model import ModelKernel
from nearkv_emulation.rtl import MemoryTiming, RtlCard, RtlKernel

from tests.support.jobs import IDENTIFY, Image, Job, Segment, build, comparable
from tests.support.random_jobs import half, random_image, random_job, random_q
from tests.support.rtl_compare import blank_failed_writes
from tests.support.rtl_coverage import MEASURED
from tests.support.rtl_tools import needs_verilator, one_process, patient
from tests.support.vectors import Vector, load

pytestmark = [needs_verilator, patient, one_process]

LIMIT = 2_000_000
# Of these only the statuses are compared: see `blank_failed_writes`.
WRITES_FAIL = ("axi-tail_k_addr", "axi-tail_v_addr", "axi-state_out", "axi-out_addr")
LENGTHS = (0, 1, 15, 16, 17, 127, 128, 129, 1000)


@pytest.fixture(scope="module")
def kernel() -> Iterator[RtlKernel]:
    with RtlCard(seed=1) as card:
        yield RtlKernel(card, LIMIT)


def differing(image: Image, kernel: RtlKernel, source: str = "directed") -> list[str]:
    """Addresses at which the RTL leaves something else than the model."""
    after = image.run(kernel)
    MEASURED.record(source, image, after)
    want, got = comparable(image, image.run(ModelKernel())), comparable(image, after)
    for memory in (want, got):
        blank_failed_writes(image, memory)
    return [hex(image.base + int(at)) for at in np.flatnonzero(want != got)]


@pytest.mark.parametrize("vector", load(), ids=lambda vector: vector.name)
def test_golden_vectors(kernel: RtlKernel, vector: Vector) -> None:
    after = vector.image.run(kernel)
    MEASURED.record("vectors", vector.image, after)
    differ = vector.differing_in(after)
    if vector.name in WRITES_FAIL:
        image = vector.image
        jobs = rm.LIST.unpack(image.memory[image.at(image.ctl) :][: rm.LIST.nbytes].tobytes())["jobs"]
        differ = [at for at in differ if image.out <= at < image.out + rm.STATUS.nbytes * jobs]
    assert differ == []


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_random_jobs(kernel: RtlKernel, first: int) -> None:
    for seed in range(first, first + 50):
        image = random_image(np.random.default_rng(seed))
        assert differing(image, kernel, "random") == [], f"seed {seed}"


@pytest.mark.parametrize("head_size", rm.HEAD_SIZES)
def test_lengths(kernel: RtlKernel, head_size: int) -> None:
    rng = np.random.default_rng(head_size)
    jobs = []
    for i, tokens in enumerate(LENGTHS):
        rows = (1, 3, 8, 9, 16, 33, 64, 4, 7)[i]
        segments = (
            [Segment(0, half(rng, tokens, head_size), half(rng, tokens, head_size), i % 2 == 0)] if tokens else []
        )
        jobs.append(Job(random_q(rng, rows, head_size), [(0, tokens)], head_size**-0.5, segments, raw=i % 3 == 0))
    assert differing(build(jobs), kernel) == []


def test_big_states_take_turns(kernel: RtlKernel) -> None:
    """d = 256 with more than 32 rows fills the bins: neighbours wait, states go from job to job."""
    rng = np.random.default_rng(5)
    jobs = []
    for i in range(5):
        k, v = half(rng, 40, 256), half(rng, 40, 256)
        job = Job(random_q(rng, 64 if i % 2 else 40, 256), [(0, 999)], 0.1, [Segment(48 * i, k, v)], state_out=True)
        jobs.append(job if i < 2 else replace(job, state_in=i - 2))
    assert differing(build([*jobs, IDENTIFY]), kernel) == []


def test_more_segments_than_are_kept(kernel: RtlKernel) -> None:
    rng = np.random.default_rng(6)
    segments = [Segment(16 * i, half(rng, 16, 64), half(rng, 16, 64), i % 3 == 0, 64 * i % 4096) for i in range(40)]
    job = Job(random_q(rng, 2, 64), [(0, 640)], 0.1, segments)
    assert differing(build([job, job, job]), kernel) == []


def test_single_token_segments(kernel: RtlKernel) -> None:
    """128 checked segments of one token: every token reads two whole pages."""
    rng = np.random.default_rng(7)
    segments = [Segment(i, half(rng, 1, 256), half(rng, 1, 256), True, 4096 - 64 * (1 + i % 7)) for i in range(128)]
    assert differing(build([Job(random_q(rng, 1, 256), [(0, 128)], 0.1, segments)]), kernel) == []


@pytest.mark.parametrize("seed", range(20))
def test_stalls_and_reordering(seed: int) -> None:
    """Every channel stalls at random, answers change places between ids; registers start with anything."""
    rng = np.random.default_rng(seed)
    with RtlCard(seed) as card:
        kernel = RtlKernel(card, LIMIT)
        for master in range(3):
            latency, stall, reorder = (int(x) for x in rng.integers(0, (200, 60, 50)))
            card.timing(master, MemoryTiming(1 + latency, stall, reorder))
        for _ in range(3):
            assert differing(random_image(rng, 150), kernel) == []


@pytest.mark.parametrize("seed", range(8))
def test_reset_at_any_cycle(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    with RtlCard(seed) as card:
        kernel = RtlKernel(card, LIMIT)
        image = random_image(rng, 200)
        memory = image.memory.copy()
        card.map(image.masters(memory))
        card.start(image.kv, image.ctl, image.out)
        card.tick(int(rng.integers(1, 1500)))
        card.reset((1, 20)[seed % 2])
        assert differing(image, kernel) == []


def test_lengths_without_reload(kernel: RtlKernel) -> None:
    """Runs of 64, 1, 17 and 64 tokens: the fourth equals the first."""
    outputs = []
    for tokens in (64, 1, 17, 64):
        rng = np.random.default_rng(9)
        job = random_job(rng, 16, head_size=64)
        job = replace(job, segments=[Segment(0, half(rng, tokens, 64), half(rng, tokens, 64))], new=None, tail=False)
        image = build([replace(job, state_in=None, output=True)])
        assert differing(image, kernel) == []
        outputs.append(comparable(image, image.run(kernel)))
    assert (outputs[0] == outputs[3]).all()
