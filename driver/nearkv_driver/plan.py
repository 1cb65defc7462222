# SPDX-License-Identifier: Apache-2.0
"""Shapes of jobs and where their parts lie in message and reply. Offsets in bytes; knows no addresses.

Message: [header | jobs | limits | segments | q | new K | new V], reply: [statuses | outputs]; each part holds all jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearkv_driver.commands import AttendJob
from nearkv_driver.regmap import (
    HEAD_SIZES,
    JOB,
    JOBS_MAX,
    LIMIT,
    LIST,
    NEW_TOKENS_MAX,
    QUERY_TOKENS_MAX,
    ROWS_MAX,
    SEGMENT,
    SEGMENTS_MAX,
    STATUS,
)
from nearkv_driver.sizes import output_nbytes, padded, state_nbytes, words


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one job; `new` counts new tokens, `limits_nbytes` whole words."""

    rows: int
    query_tokens: int
    d: int
    d_pad: int
    segments: int
    new: int
    limits_nbytes: int
    out_nbytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the parts begin; q, new_k, new_v and out hold one offset per job."""

    shapes: tuple[Shape, ...]
    limits: int
    segments: int
    q: tuple[int, ...]
    new_k: tuple[int, ...]
    new_v: tuple[int, ...]
    out: tuple[int, ...]
    nbytes: int
    reply_nbytes: int


def plan(jobs: Sequence[AttendJob]) -> Plan:
    """Raises TypeError or ValueError, naming job and field, for arrays that make no job."""
    if not 1 <= len(jobs) <= JOBS_MAX:
        raise ValueError(f"{len(jobs)} jobs; a list has 1 to {JOBS_MAX}")
    shapes = tuple(_shape(i, job) for i, job in enumerate(jobs))
    limits = LIST.nbytes + len(jobs) * JOB.nbytes
    segments = limits + sum(s.limits_nbytes for s in shapes)
    at = segments + sum(s.segments for s in shapes) * SEGMENT.nbytes
    starts: list[tuple[int, ...]] = []
    for part in ([s.rows * s.d_pad * 4 for s in shapes], *[[s.new * s.d_pad * 2 for s in shapes]] * 2):
        offsets = []
        for nbytes in part:
            offsets.append(at)
            at += nbytes
        starts.append(tuple(offsets))
    reply, out = words(len(jobs) * STATUS.nbytes), []
    for s in shapes:
        out.append(reply)
        reply += s.out_nbytes
    return Plan(shapes, limits, segments, starts[0], starts[1], starts[2], tuple(out), at, reply)


def _shape(i: int, job: AttendJob) -> Shape:
    d = job.head_size
    if d not in HEAD_SIZES:
        raise ValueError(f"job {i}: head_size = {d}; supported are {', '.join(map(str, HEAD_SIZES))}")
    rows = _array(i, "q", job.q, np.float32, d)
    if not 1 <= rows <= ROWS_MAX:
        raise ValueError(f"job {i}: q has {rows} rows; a job has 1 to {ROWS_MAX}")
    tokens = len(job.limits)
    if not 1 <= tokens <= QUERY_TOKENS_MAX:
        raise ValueError(f"job {i}: {tokens} limits; a job has 1 to {QUERY_TOKENS_MAX} query tokens")
    if rows % tokens:
        raise ValueError(f"job {i}: {rows} rows do not divide among {tokens} query tokens")
    if (job.new_k is None) != (job.new_v is None):
        raise ValueError(f"job {i}: new_k and new_v come together")
    new = 0
    if job.new_k is not None and job.new_v is not None:
        new = _array(i, "new_k", job.new_k, np.float16, d)
        if _array(i, "new_v", job.new_v, np.float16, d) != new:
            raise ValueError(f"job {i}: new_k has {new} rows, new_v {len(job.new_v)}")
        if new > NEW_TOKENS_MAX:
            raise ValueError(f"job {i}: {new} new rows; a job carries at most {NEW_TOKENS_MAX}")
    table = job.segments
    if not isinstance(table, np.ndarray) or table.dtype != SEGMENT.dtype or table.ndim != 1:
        raise TypeError(f"job {i}: segments must be a 1-D array of the segment dtype (commands.segments makes one)")
    if len(table) > SEGMENTS_MAX:
        raise ValueError(f"job {i}: {len(table)} segments; a job has at most {SEGMENTS_MAX}")
    if job.raw and not job.output:
        raise ValueError(f"job {i}: raw = True without output")
    size = (state_nbytes if job.raw else output_nbytes)(rows, d) if job.output else 0
    return Shape(rows, tokens, d, padded(d), len(table), new, words(tokens * LIMIT.nbytes), size)


def _array(i: int, name: str, value: object, dtype: type[np.generic], d: int) -> int:
    """Rows of a [rows, d] array of `dtype`."""
    if not isinstance(value, np.ndarray) or value.dtype != dtype:
        found = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise TypeError(f"job {i}: {name} must be a {np.dtype(dtype)} array, not {found}")
    if value.ndim != 2 or value.shape[1] != d:
        raise ValueError(f"job {i}: {name} has shape {value.shape}; expected (rows, {d})")
    return int(value.shape[0])
