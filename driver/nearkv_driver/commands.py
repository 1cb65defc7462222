# SPDX-License-Identifier: Apache-2.0
"""What can be asked of a card and what comes back, as values. Knows no bytes; `encode` and `decode` do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nearkv_driver.regmap import SEGMENT, Implementation

SegmentTable = NDArray[np.void]


def segments(rows: Iterable[tuple[int, int, int, int, int]] = ()) -> SegmentTable:
    """A segment table from (tokens, first_position, k_addr, v_addr, crc_addr) tuples; crc_addr 0 = unchecked."""
    return np.array(list(rows), dtype=SEGMENT.dtype)


@dataclass(frozen=True, eq=False)
class AttendJob:
    """Exact attention of all query rows that share one KV head of one sequence.

    q: [rows, head_size], token-major: row r belongs to query token r // group. `limits` holds (first, limit) per query
    token: it sees first <= position < limit, with `window` > 0 only the last `window` of them. `segments` describes
    stored K and V (`commands.segments`); new_k and new_v [n, head_size] travel with the job, stand at `new_first` and
    later, and are copied to tail_k_addr and tail_v_addr unless those are 0. state_in and state_out are device
    addresses of states (0 = none). With `raw` the result is a RawResult; without `output` it has no rows.
    """

    head_size: int
    q: NDArray[np.float32]
    limits: tuple[tuple[int, int], ...]
    scale: float
    window: int = 0
    segments: SegmentTable = field(default_factory=segments)
    new_k: NDArray[np.float16] | None = None
    new_v: NDArray[np.float16] | None = None
    new_first: int = 0
    tail_k_addr: int = 0
    tail_v_addr: int = 0
    state_in: int = 0
    state_out: int = 0
    output: bool = True
    raw: bool = False


@dataclass(frozen=True, eq=False)
class AttendResult:
    """o [rows, head_size] and l [rows] in units of 2**(32 * t): attention is o / l, log-sum-exp (log2 l + 32 t) ln 2.

    A row that saw no token has o = l = 0 and t = `EMPTY_T`. `saturated`: a score was clamped. `beats`: 64-byte words of
    K and V read. `cycles`: 0 where there is no clock. The arrays are read-only views of the reply.
    """

    o: NDArray[np.float32]
    l: NDArray[np.float32]  # noqa: E741  the name that the arithmetic gives it
    t: NDArray[np.int32]
    saturated: bool
    beats: int
    cycles: int


@dataclass(frozen=True, eq=False)
class RawResult:
    """The accumulated state as integers: o [rows, 3, head_size] and l [rows, 3], bin t first, then t - 1 and t - 2."""

    o: NDArray[np.int64]
    l: NDArray[np.int64]  # noqa: E741
    t: NDArray[np.int32]
    saturated: bool
    beats: int
    cycles: int


Result = AttendResult | RawResult


@dataclass(frozen=True)
class Identity:
    """Which kernel is on the card; `head_sizes`, `element_formats` and `opcodes` list what it supports."""

    version: int
    regmap_hash: int
    implementation: Implementation
    lanes: int
    rows_max: int
    head_sizes: tuple[int, ...]
    element_formats: tuple[int, ...]
    opcodes: tuple[int, ...]
    block_tokens: int
    tile_tokens: int
    build: int
