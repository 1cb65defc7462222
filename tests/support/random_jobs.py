# SPDX-License-Identifier: Apache-2.0
"""Random valid job lists: every feature of the contract, values from subnormal to saturating.

Draws everything from the generator it is given, so that a printed seed repeats a case.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from nearkv_driver import regmap as rm
from numpy.typing import NDArray

from tests.support.jobs import IDENTIFY, Image, Job, Segment, build

Rng = np.random.Generator
FAMILIES = ("normal", "small", "large", "subnormal", "mixed rows", "mixed elements", "extreme", "constant", "sparse")


def values(rng: Rng, family: str, rows: int, head_size: int) -> NDArray[np.float64]:
    """[rows, head_size] values of a family, all within the FP16 range."""
    x: NDArray[np.float64] = rng.normal(size=(rows, head_size))
    match family:
        case "small":
            x *= 1e-3
        case "large":
            x *= 300
        case "subnormal":
            x = rng.integers(-20, 21, x.shape).astype(np.float64) * 2.0**-24
        case "mixed rows":
            x *= 2.0 ** rng.integers(-20, 12, (rows, 1))
        case "mixed elements":
            x *= 2.0 ** rng.integers(-24, 13, x.shape)
        case "extreme":
            x = rng.choice([-65504.0, 65504.0, 0.0, 2.0**-24, -0.0, 1.0], x.shape)
        case "constant":
            x = np.full(x.shape, rng.normal())
        case "sparse":
            x = np.where(rng.random(x.shape) < 0.05, x, 0)
    return np.clip(x, -65504, 65504)


def half(rng: Rng, rows: int, head_size: int) -> NDArray[np.float16]:
    return values(rng, rng.choice(FAMILIES), rows, head_size).astype(np.float16)


def random_q(rng: Rng, rows: int, head_size: int) -> NDArray[np.float32]:
    """q in FP32: FP16 values, all 24 bits, huge, or so small that FP32 is subnormal."""
    x = values(rng, rng.choice(FAMILIES), rows, head_size)
    match rng.integers(5):
        case 0:
            return x.astype(np.float16).astype(np.float32)
        case 1:
            return (x * 2.0 ** rng.integers(-140, 100)).astype(np.float32)
        case _:
            return x.astype(np.float32)


def random_segments(rng: Rng, head_size: int, tokens: int, first: int) -> list[Segment]:
    """Segments over [first, first + tokens), `first` a multiple of 16: runs in any order, some positions left out."""
    end, segments = first + tokens, []
    # Runs begin at multiples of 16.
    candidates = np.arange(first, end, rm.TILE_TOKENS)
    starts = sorted(rng.choice(candidates, min(len(candidates), int(rng.integers(1, 5))), replace=False).tolist())
    runs = list(zip(starts, [*starts[1:], end], strict=True))
    for i in rng.permutation(len(runs)):
        run_first, run_end = runs[i]
        if rng.random() < 0.3:
            run_end = int(rng.integers(run_first, run_end)) + 1
        cuts = rng.integers(run_first, run_end, int(rng.integers(0, 4)))
        edges = sorted({run_first, *cuts.tolist(), run_end})
        checked = rng.random() < 0.5
        for a, b in pairwise(edges):
            k, v = half(rng, b - a, head_size), half(rng, b - a, head_size)
            # Now and then a segment of a run is of the other kind.
            kind = checked ^ (rng.random() < 0.1)
            segments.append(Segment(a, k, v, kind, int(rng.integers(64)) * 64 if kind else 0))
    return segments


def random_limits(rng: Rng, query_tokens: int, first: int, end: int) -> list[tuple[int, int]]:
    """Causal limits near the end, or anything: also ones that leave nothing visible."""
    if rng.random() < 0.5:
        return [(0 if rng.random() < 0.8 else first, max(0, end - i)) for i in range(query_tokens)][::-1]
    low, high = max(0, first - 5), min(rm.POSITIONS_MAX, end + 5)
    return [tuple(rng.integers(low, high + 1, 2).tolist()) for _ in range(query_tokens)]


def random_job(rng: Rng, max_tokens: int = 300, head_size: int | None = None) -> Job:
    """One attend job."""
    head_size = head_size or int(rng.choice(rm.HEAD_SIZES))
    query_tokens = int(rng.choice([1, 1, 1, 2, 3, 5]))
    rows = query_tokens * int(rng.choice([1, 1, 2, 3, 8]))
    some = rng.integers(1, max_tokens + 1, 2).tolist()
    tokens = int(rng.choice([0, 1, 15, 16, 17, *some]))
    last_tile = (rm.POSITIONS_MAX - max_tokens - rm.NEW_TOKENS_MAX - 16) // 16
    first = 16 * int(rng.choice([0, 0, 0, int(rng.integers(40)), last_tile]))
    segments = random_segments(rng, head_size, tokens, first) if tokens else []
    new, end = None, first + tokens
    if rng.random() < 0.4:
        count = int(rng.choice([1, 1, 2, 7, 16, 64]))
        follows = segments and rng.random() < 0.7
        # Either where the last segment ends, or at a tile that nothing else uses.
        at = segments[-1].first + len(segments[-1].k) if follows else -(-end // 16) * 16
        if follows and any(s.first < at + count and at < s.first + len(s.k) for s in segments):
            at = -(-end // 16) * 16
        new = Segment(at, half(rng, count, head_size), half(rng, count, head_size))
        end = max(end, at + count)
    return Job(
        q=random_q(rng, rows, head_size),
        limits=random_limits(rng, query_tokens, first, end),
        scale=head_size**-0.5 * float(rng.choice([1, 1, 1, 2.0**-40, 2.0**20])),
        segments=segments,
        new=new,
        tail=bool(rng.random() < 0.5),
        window=int(rng.choice([0, 0, 0, 1, 4, 50, 1000, rm.POSITIONS_MAX - 1])),
        state_in=random_state(rng, rows, head_size) if rng.random() < 0.2 else None,
        state_out=bool(rng.random() < 0.3),
        output=bool(rng.random() < 0.9),
        raw=bool(rng.random() < 0.3),
    )


def random_state(rng: Rng, rows: int, head_size: int) -> bytes:
    """A state as a kernel could have left it, and sometimes with registers at their limits; garbage in the padding."""
    d_pad = -(-head_size // rm.LANE_PAD) * rm.LANE_PAD
    t = rng.choice([0, 1, -2, -300, 300, 100_000, -rm.STATE_T_LIMIT + 1, rm.STATE_T_LIMIT - 1, rm.EMPTY_T], rows)
    high = int(rng.choice([2**33, 2**40, 2**49]))
    o = rng.integers(-high, high, (rows, 3, d_pad))
    last = rng.integers(-high, high, (rows, 4))
    o[t == rm.EMPTY_T] = 0
    last[t == rm.EMPTY_T] = 0
    o[:, :, head_size:] = rng.integers(-(2**62), 2**62, (rows, 3, d_pad - head_size))
    last[:, 3] = t
    data = o.tobytes() + last.tobytes()
    return data + rng.bytes(-len(data) % rm.WORD_BYTES)


def random_image(rng: Rng, max_tokens: int = 300) -> Image:
    """A list of one to three jobs; a later one may start from the state that an earlier one left."""
    jobs = [random_job(rng, max_tokens)]
    while len(jobs) < 3 and rng.random() < 0.25:
        before = jobs[-1]
        job = random_job(rng, max_tokens, head_size=before.head_size)
        if before.state_out and not before.identify and job.rows == before.rows:
            job = replace(job, state_in=len(jobs) - 1)
        jobs.append(IDENTIFY if rng.random() < 0.1 else job)
    return build(jobs, tight=bool(rng.random() < 0.5))
