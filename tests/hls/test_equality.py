# SPDX-License-Identifier: Apache-2.0
"""The HLS kernel and the NumPy model leave the same bytes in memory: random jobs, and random damage to sound ones.

Cases are drawn from seeds that hypothesis picks the same way each time; a failing one is printed and repeats alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nearkv_driver import regmap as rm

from tests.support.jobs import Image, Job, Segment, build, comparable
from tests.support.kernels import kernel
from tests.support.random_jobs import Rng, random_image, random_job

SEEDS = st.integers(0, 2**48)


def fixed(examples: int) -> settings:
    return settings(derandomize=True, deadline=None, database=None, max_examples=examples)


def codes(image: Image, memory: np.ndarray) -> list[int]:
    return [status["code"] for status in image.statuses(memory)]


def same_bytes(image: Image) -> list[int]:
    """Fails unless both kernels leave the same memory; returns the status codes."""
    model, csim = (image.run(kernel(name)) for name in ("model", "csim"))
    told = [[status | {"cycles": 0} for status in image.statuses(memory)] for memory in (model, csim)]
    assert told[0] == told[1]
    differ = np.flatnonzero(comparable(image, model) != comparable(image, csim))
    assert not len(differ), f"{len(differ)} bytes differ, the first at {image.base + int(differ[0]):#x}"
    return codes(image, model)


def damaged(rng: Rng, image: Image) -> Image:
    """Bits flipped in the list, in what it points to, in K and V; or memory that does not answer."""
    memory = image.memory.copy()
    list_end = image.at(image.ctl) + rm.LIST.nbytes + rm.JOB.nbytes * len(image.jobs)
    job = int(rng.integers(len(image.jobs)))
    match rng.integers(6):
        case 0:
            places = rng.integers(image.at(image.ctl), list_end, 1)
        case 1:
            start = image.at(image.ctl) + rm.LIST.nbytes + rm.JOB.nbytes * job
            places = rng.integers(start, start + 128, int(rng.integers(1, 3)))
        case 2:
            places = rng.integers(image.at(image.ctl), image.at(image.out), 3)
        case 3:
            places = rng.integers(0, image.at(image.out), 4)
        case 4:
            fields = image.placed[job]
            start = image.at(fields.get("segments_addr", 0) or image.ctl)
            places = start + rng.integers(0, 64 * max(1, fields.get("segments", 1)), 1)
        case _:
            start = int(rng.integers(len(memory) // 64)) * 64
            end = min(len(memory), start + 64 * int(rng.integers(1, 40)))
            return replace(image, holes=((int(rng.integers(3)), start, end),))
    for place in places.tolist():
        memory[place] ^= 1 << int(rng.integers(8))
    return replace(image, memory=memory)


@fixed(2000)
@given(SEEDS)
def test_random_jobs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    image = random_image(rng, max_tokens=200)
    assert same_bytes(image) == [rm.Status.OK] * len(image.jobs)


@fixed(2500)
@given(SEEDS)
def test_random_damage(seed: int) -> None:
    rng = np.random.default_rng(seed)
    job = random_job(rng, max_tokens=100, head_size=int(rng.choice([64, 80, 128])))
    same_bytes(damaged(rng, build([job, random_job(rng, max_tokens=20, head_size=64)], tight=True)))


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 63, 64])
@pytest.mark.parametrize("head_size", rm.HEAD_SIZES)
def test_every_head_size_with_many_rows(rows: int, head_size: int) -> None:
    rng = np.random.default_rng(rows * 1000 + head_size)
    job = random_job(rng, max_tokens=300, head_size=head_size)
    q = np.resize(job.q, (rows, head_size)) * rng.normal(size=(rows, 1)).astype(np.float32)
    limits = [(int(first), 100_000) for first in rng.integers(0, 200, rows)]
    plain = replace(job, q=np.nan_to_num(q, posinf=1, neginf=1), limits=limits, state_in=None)
    assert same_bytes(build([plain, replace(plain, raw=True)])) == [rm.Status.OK] * 2


@pytest.mark.parametrize("head_size", [64, 256])
@pytest.mark.parametrize("tokens", [1, 2])
def test_a_block_of_short_segments_that_straddle_pages(head_size: int, tokens: int) -> None:
    """As many pages end in one visit as can: two for each segment."""
    rng = np.random.default_rng(head_size)
    k, v = (rng.normal(size=(rm.BLOCK_TOKENS, head_size)).astype(np.float16) for _ in range(2))
    parts = [slice(first, first + tokens) for first in range(0, rm.BLOCK_TOKENS, tokens)]
    segments = [Segment(part.start, k[part], v[part], True, rm.PAGE_BYTES - rm.WORD_BYTES) for part in parts]
    q = rng.normal(size=(1, head_size)).astype(np.float32)
    image = build([Job(q, [(0, rm.BLOCK_TOKENS)], head_size**-0.5, segments)])
    assert same_bytes(image) == [rm.Status.OK]
    beats = image.statuses(image.run(kernel("model")))[0]["beats"]
    assert beats == 2 * len(segments) * 2 * rm.PAGE_BYTES // rm.WORD_BYTES


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_random_jobs_at_length(seed: int) -> None:
    """Contexts of thousands of tokens, 500 lists per seed."""
    rng = np.random.default_rng(seed)
    for _ in range(500):
        state = rng.bit_generator.state
        image = random_image(rng, max_tokens=int(rng.choice([300, 3000])))
        assert same_bytes(image) == [rm.Status.OK] * len(image.jobs), state
        same_bytes(damaged(rng, image))
