# SPDX-License-Identifier: Apache-2.0
"""Words of K and V per cycle, with memory that can deliver one each cycle after a latency of 40 cycles."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from nearkv_driver import regmap as rm
from nearkv_emulation.rtl import MemoryTiming, RtlCard, RtlKernel
from numpy.typing import NDArray

from tests.support.jobs import Job, Segment, build
from tests.support.rtl_tools import needs_verilator, patient

pytestmark = [needs_verilator, patient]

LATENCY = 40


@pytest.fixture(scope="module")
def kernel() -> Iterator[RtlKernel]:
    with RtlCard() as card:
        for master in range(3):
            card.timing(master, MemoryTiming(LATENCY))
        yield RtlKernel(card)


def rate(kernel: RtlKernel, head_size: int, rows: int, tokens: int, jobs: int = 1) -> float:
    """Words per cycle from the start of a list to the last status, as the statuses tell."""
    rng = np.random.default_rng(1)

    def kv() -> NDArray[np.float16]:
        return rng.normal(size=(tokens, head_size)).astype(np.float16)

    def q() -> NDArray[np.float32]:
        return rng.normal(size=(rows, head_size)).astype(np.float32)

    image = build([Job(q(), [(0, tokens)], 0.1, [Segment(0, kv(), kv())]) for _ in range(jobs)])
    statuses = image.statuses(image.run(kernel))
    assert {status["code"] for status in statuses} == {rm.Status.OK}
    return sum(status["beats"] for status in statuses) / sum(status["cycles"] for status in statuses)


@pytest.mark.parametrize("head_size", [64, 128])
def test_one_long_job(kernel: RtlKernel, head_size: int) -> None:
    assert rate(kernel, head_size, 8, 4096) >= 0.97


@pytest.mark.parametrize("head_size", [64, 128])
def test_many_short_jobs(kernel: RtlKernel, head_size: int) -> None:
    assert rate(kernel, head_size, 8, 256, jobs=64) >= 0.90


@pytest.mark.parametrize(("rows", "least", "most"), [(16, 0.48, 0.50), (64, 0.12, 0.125)])
def test_more_rows_are_bound_by_the_array(kernel: RtlKernel, rows: int, least: float, most: float) -> None:
    """The array walks a block once per eight rows: ever more than `most` would mean that rows were left out."""
    assert least <= rate(kernel, 64, rows, 4096) <= most
