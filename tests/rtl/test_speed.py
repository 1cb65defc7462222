# SPDX-License-Identifier: Apache-2.0
"""Words of K and V per cycle, with memory that can deliver one each cycle after a latency."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from nearkv_driver import regmap as rm
from nearkv_emulation.rtl import MemoryTiming, RtlCard, RtlKernel

from tests.support.jobs import Job, build
from tests.support.random_jobs import random_state
from tests.support.rtl_tools import needs_verilator, patient
from tests.support.speed_jobs import job

pytestmark = [needs_verilator, patient]

LATENCY, LONG_LATENCY = 40, 100


@pytest.fixture(scope="module")
def card() -> Iterator[RtlCard]:
    with RtlCard() as card:
        yield card


@pytest.fixture
def kernel(card: RtlCard) -> RtlKernel:
    set_latency(card, LATENCY)
    return RtlKernel(card)


def set_latency(card: RtlCard, latency: int) -> None:
    for master in range(3):
        card.timing(master, MemoryTiming(latency))


def rate(kernel: RtlKernel, jobs: list[Job]) -> float:
    """Words per cycle from the start of a list to the last status, as the statuses tell."""
    image = build(jobs)
    statuses = image.statuses(image.run(kernel))
    assert {status["code"] for status in statuses} == {rm.Status.OK}
    return sum(status["beats"] for status in statuses) / sum(status["cycles"] for status in statuses)


@pytest.mark.parametrize("head_size", [64, 128])
def test_one_long_job(kernel: RtlKernel, head_size: int) -> None:
    assert rate(kernel, [job(head_size, 8, 4096)]) >= 0.975


@pytest.mark.parametrize("head_size", [64, 128])
@pytest.mark.parametrize("latency", [LATENCY, LONG_LATENCY])
def test_many_short_jobs(card: RtlCard, kernel: RtlKernel, head_size: int, latency: int) -> None:
    """Preparation and writing of a job hide behind the walks of its neighbours."""
    set_latency(card, latency)
    assert rate(kernel, [job(head_size, 8, 256, seed=i) for i in range(64)]) >= 0.98


@pytest.mark.parametrize("head_size", [64, 128])
def test_checked_pages_and_a_new_row(kernel: RtlKernel, head_size: int) -> None:
    """What a decode step sends: extents of 128 tokens with checksums, the new row in the message."""
    assert rate(kernel, [job(head_size, 8, 4096, segment=128, new=1)]) >= 0.96


def test_heads_with_new_rows_and_a_tail_copy(kernel: RtlKernel) -> None:
    """Nine heads; 17 new rows each, which the array walks as two tiles of V and the kv port does not see."""
    assert rate(kernel, [job(64, 3, 1024, segment=128, new=17, seed=i) for i in range(9)]) >= 0.95


def test_states_between_waves(kernel: RtlKernel) -> None:
    """A job with a state starts only when those before it are written: all of its latencies show."""
    state = random_state(np.random.default_rng(2), 4, 128)
    assert rate(kernel, [job(128, 4, 1024, segment=128, state=state, seed=i) for i in range(8)]) >= 0.80


def test_long_latency(card: RtlCard, kernel: RtlKernel) -> None:
    """512 words are asked for at once, so latency costs only at the ends of a list."""
    set_latency(card, 400)
    assert rate(kernel, [job(64, 8, 16384)]) >= 0.95


@pytest.mark.parametrize(("rows", "least", "most"), [(16, 0.48, 0.50), (64, 0.12, 0.125)])
def test_more_rows_are_bound_by_the_array(kernel: RtlKernel, rows: int, least: float, most: float) -> None:
    """The array walks a block once per eight rows: ever more than `most` would mean that rows were left out."""
    assert least <= rate(kernel, [job(64, rows, 4096)]) <= most
