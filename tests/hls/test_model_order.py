# SPDX-License-Identifier: Apache-2.0
"""The same tokens in any order of segments, cut into waves or merged, give the same state bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from nearkv_driver import regmap as rm

from tests.support.jobs import Job, Segment, build
from tests.support.kernels import IMPLEMENTATIONS, kernel
from tests.support.random_jobs import Rng, half, random_q

TOKENS = 400


def final_state(name: str, jobs: Sequence[Job]) -> bytes:
    """The state that the last job leaves."""
    image = build(jobs)
    memory = image.run(kernel(name))
    codes = [status["code"] for status in image.statuses(memory)]
    assert codes == [rm.Status.OK] * len(jobs)
    return image.state(memory, len(jobs) - 1)


def whole_job(rng: Rng, head_size: int) -> Job:
    """Three query tokens that share their KV head by two; one segment with everything."""
    q = random_q(rng, 6, head_size)
    limits = [(0, TOKENS - 2), (5, TOKENS - 1), (0, TOKENS)]
    k, v = half(rng, TOKENS, head_size), half(rng, TOKENS, head_size)
    return Job(q, limits, head_size**-0.5, [Segment(0, k, v)], state_out=True, output=False)


def cut(job: Job, edges: Sequence[int], rng: Rng) -> list[Segment]:
    """The job's only segment cut at the edges; some of the pieces are checked and lie askew in their pages."""
    whole = job.segments[0]
    pieces = []
    for a, b in zip([0, *edges], [*edges, TOKENS], strict=True):
        checked = bool(rng.random() < 0.5)
        offset = int(rng.integers(64)) * 64 if checked else 0
        pieces.append(Segment(a, whole.k[a:b], whole.v[a:b], checked, offset))
    return pieces


def tile_edges(rng: Rng, count: int) -> list[int]:
    return sorted(rng.choice(np.arange(16, TOKENS, 16), count, replace=False).tolist())


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("head_size", rm.HEAD_SIZES)
def test_order_of_segments_changes_no_bit(implementation: str, head_size: int) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        job = whole_job(rng, head_size)
        expected = final_state(implementation, [job])
        for _ in range(4):
            pieces = cut(job, tile_edges(rng, 5), rng)
            shuffled = [pieces[i] for i in rng.permutation(len(pieces))]
            assert final_state(implementation, [replace(job, segments=shuffled)]) == expected, f"seed {seed}"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("head_size", [64, 80, 256])
def test_where_segments_of_a_run_meet_changes_no_bit(implementation: str, head_size: int) -> None:
    """Segments that follow each other may end anywhere, inside a tile too; the last tokens may come as new rows."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        job = whole_job(rng, head_size)
        expected = final_state(implementation, [job])
        for new in (0, 1, 37):
            edges = sorted(rng.choice(np.arange(1, TOKENS - 40), 6, replace=False).tolist())
            pieces = cut(job, [*edges, TOKENS - new] if new else edges, rng)
            last = replace(pieces[-1], checked=False, offset=0)
            parts = replace(job, segments=pieces[:-1] if new else pieces, new=last if new else None)
            assert final_state(implementation, [parts]) == expected, f"seed {seed}"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("head_size", [64, 112, 128])
def test_waves_change_no_bit(implementation: str, head_size: int) -> None:
    """The segments spread over several jobs, each starting from the state that the one before left."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        job = whole_job(rng, head_size)
        expected = final_state(implementation, [job])
        for waves in (2, 3, 5):
            pieces = cut(job, tile_edges(rng, waves - 1), rng)
            order = rng.permutation(waves)
            jobs = [
                replace(job, segments=[pieces[piece]], state_in=None if wave == 0 else wave - 1)
                for wave, piece in enumerate(order)
            ]
            assert final_state(implementation, jobs) == expected, f"seed {seed}"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_rows_of_a_job_do_not_meet(implementation: str) -> None:
    """64 rows at once give what each gives alone."""
    rng = np.random.default_rng(7)
    k, v = half(rng, 150, 64), half(rng, 150, 64)
    q, scale, segments = random_q(rng, 64, 64), 0.125, [Segment(0, k, v)]
    limits = [(int(first), 150 - i) for i, first in enumerate(rng.integers(0, 100, 64))]
    together = build([Job(q, limits, scale, segments)])
    o, weight, t = together.output(together.run(kernel(implementation)), 0)
    alone = build([Job(q[r : r + 1], limits[r : r + 1], scale, segments) for r in range(64)])
    memory = alone.run(kernel(implementation))
    for r in range(64):
        one = alone.output(memory, r)
        assert np.array_equal(one[0][0].view(np.uint32), o[r].view(np.uint32))
        assert (one[1][0], one[2][0]) == (weight[r], t[r])
