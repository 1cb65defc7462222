# SPDX-License-Identifier: Apache-2.0
"""What a job points to: limits and segments, read and checked in the order of docs/kernel-contract.md.

Reads no K, V or q.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from nearkv_driver.regmap import (
    JOB,
    LIMIT,
    PAGE_BYTES,
    PAGE_CRC,
    POSITIONS_MAX,
    SEGMENT,
    TILE_TOKENS,
    WORD_BYTES,
    Status,
)
from numpy.typing import NDArray

from nearkv_emulation.model_checks import Checks, Fields, Windows, padded, refuse_first, reserved
from nearkv_emulation.model_memory import Fault, Master


@dataclass(frozen=True)
class Segment:
    """Tokens that lie together: `first` position, addresses of K and V, of their checksums (0 = unchecked).

    `new` marks the new rows of the message, which come from the ctl master; `row_nbytes` from one token to the next.
    """

    index: int
    tokens: int
    first: int
    k_addr: int
    v_addr: int
    crc_addr: int
    row_nbytes: int
    new: bool = False

    @property
    def end(self) -> int:
        return self.first + self.tokens

    def pages(self, address: int) -> tuple[int, int]:
        """First address and one past the last of the whole pages that the rows at `address` touch."""
        end = address + self.tokens * self.row_nbytes
        return address - address % PAGE_BYTES, end + -end % PAGE_BYTES


def read_limits(ctl: Master, job: Fields) -> NDArray[np.int64]:
    """(first, limit) of each query token, int64 [query_tokens, 2]. Raises Fault (bad_limit)."""
    raw = ctl.read(job["limits_addr"], job["query_tokens"] * LIMIT.nbytes)
    limits = raw.copy().view(np.uint32).reshape(-1, 2).astype(np.int64)
    for token, (first, limit) in enumerate(limits.tolist()):
        checks = [(LIMIT.offset["first"], first <= POSITIONS_MAX), (LIMIT.offset["limit"], limit <= POSITIONS_MAX)]
        refuse_first(Status.BAD_LIMIT, iter(checks), position=token)
    return limits


def visible(limits: NDArray[np.int64], window: int, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which positions each query token sees, [query_tokens, positions]."""
    first, limit = limits[:, :1], limits[:, 1:]
    seen: NDArray[np.bool_] = (positions >= first) & (positions < limit)
    return seen & (positions + window >= limit) if window else seen


def read_segments(ctl: Master, job: Fields, windows: Windows) -> list[Segment]:
    """Every segment, the new rows as the last one. Raises Fault (bad_segment, or bad_job at new_first)."""
    row_nbytes = padded(job["head_size"]) * 2
    segments: list[Segment] = []
    for index in range(job["segments"]):
        raw = ctl.read(job["segments_addr"] + index * SEGMENT.nbytes, SEGMENT.nbytes).tobytes()
        f = SEGMENT.unpack(raw)
        segment = Segment(index, f["tokens"], f["first_position"], f["k_addr"], f["v_addr"], f["crc_addr"], row_nbytes)
        before = segments[-1] if segments else None
        refuse_first(Status.BAD_SEGMENT, _segment(raw, segment, before, windows), segment=index)
        segments.append(segment)
    if job["new_tokens"]:
        new = Segment(
            len(segments),
            job["new_tokens"],
            job["new_first"],
            job["new_k_addr"],
            job["new_v_addr"],
            0,
            row_nbytes,
            True,
        )
        if not _starts_well(new, segments[-1] if segments else None):
            raise Fault(Status.BAD_JOB, detail=JOB.offset["new_first"])
        segments.append(new)
    return segments


def _starts_well(segment: Segment, before: Segment | None) -> bool:
    follows = before is not None and segment.first == before.end
    return segment.end <= POSITIONS_MAX and (segment.first % TILE_TOKENS == 0 or follows)


def _segment(raw: bytes, segment: Segment, before: Segment | None, windows: Windows) -> Checks:
    at = SEGMENT.offset
    nbytes = segment.tokens * segment.row_nbytes
    yield at["tokens"], segment.tokens > 0
    yield at["first_position"], _starts_well(segment, before)
    for name, address in (("k_addr", segment.k_addr), ("v_addr", segment.v_addr)):
        yield at[name], address != 0 and address % WORD_BYTES == 0 and windows.kv.holds(address, nbytes)
    if segment.crc_addr:
        yield at["crc_addr"], segment.crc_addr % PAGE_CRC.nbytes == 0
        yield at["crc_addr"], segment.k_addr % PAGE_BYTES == segment.v_addr % PAGE_BYTES
        for address in (segment.k_addr, segment.v_addr):
            start, end = segment.pages(address)
            yield at["crc_addr"], windows.kv.holds(start, end - start)
        start, end = segment.pages(segment.k_addr)
        yield at["crc_addr"], windows.ctl.holds(segment.crc_addr, (end - start) // PAGE_BYTES * PAGE_CRC.nbytes)
    yield from reserved(raw, at["crc_addr"] + 8, SEGMENT.nbytes)
