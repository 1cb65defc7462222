# SPDX-License-Identifier: Apache-2.0
"""The walk over K and V: which tokens are visited together, how their rows are read, and how they are judged.

Computes nothing with them; see `model_attend`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import google_crc32c
import numpy as np
from nearkv_driver.regmap import BLOCK_TOKENS, PAGE_BYTES, PAGE_CRC, Kind, Status
from numpy.typing import NDArray

from nearkv_emulation.model_descriptors import Segment
from nearkv_emulation.model_memory import Bytes, Fault, Master


@dataclass(frozen=True)
class Slice:
    """`tokens` of a segment from its token `start` on."""

    segment: Segment
    start: int
    tokens: int

    @property
    def position(self) -> int:
        return self.segment.first + self.start

    @property
    def ends_segment(self) -> bool:
        return self.start + self.tokens == self.segment.tokens


def visits(segments: Sequence[Segment]) -> Iterator[list[Slice]]:
    """Slices with consecutive positions inside one block of 128, ended by the block or by the run of segments."""
    visit: list[Slice] = []
    for segment in segments:
        if visit and visit[-1].segment.end != segment.first:
            yield visit
            visit = []
        start = 0
        while start < segment.tokens:
            position = segment.first + start
            tokens = min(segment.tokens - start, BLOCK_TOKENS - position % BLOCK_TOKENS)
            visit.append(Slice(segment, start, tokens))
            start += tokens
            if (position + tokens) % BLOCK_TOKENS == 0:
                yield visit
                visit = []
    if visit:
        yield visit


def operand(kv: Master, ctl: Master, visit: Sequence[Slice], kind: Kind, head_size: int) -> NDArray[np.float64]:
    """K or V of a visit, [tokens, head_size]. Raises Fault (axi_read, crc_mismatch, nonfinite_kv, in this order)."""
    rows = [_read(kv, ctl, s, kind) for s in visit]
    checks = [_bad_page(kv, ctl, s, kind) for s in visit]
    for s, page in zip(visit, checks, strict=True):
        if page is not None:
            raise Fault(Status.CRC_MISMATCH, segment=s.segment.index, page=page, kind=kind)
    parts = []
    for s, data in zip(visit, rows, strict=True):
        part = data.copy().view(np.float16).reshape(s.tokens, -1)[:, :head_size]
        bad = np.flatnonzero(~np.isfinite(part).all(axis=1))
        if len(bad):
            position = s.position + int(bad[0])
            raise Fault(Status.NONFINITE_KV, segment=s.segment.index, kind=kind, position=position)
        parts.append(part)
    return np.concatenate(parts).astype(np.float64)


def _address(segment: Segment, kind: Kind) -> int:
    return segment.k_addr if kind == Kind.K else segment.v_addr


def _extent(s: Slice, kind: Kind) -> tuple[int, int]:
    """The bytes that a visit reads of a checked segment: its tokens, and what completes the outermost pages."""
    address, row = _address(s.segment, kind), s.segment.row_nbytes
    begin, end = address + s.start * row, address + (s.start + s.tokens) * row
    whole_begin, whole_end = s.segment.pages(address)
    return (whole_begin if s.start == 0 else begin), (whole_end if s.ends_segment else end)


def _read(kv: Master, ctl: Master, s: Slice, kind: Kind) -> Bytes:
    address, row = _address(s.segment, kind) + s.start * s.segment.row_nbytes, s.segment.row_nbytes
    nbytes = s.tokens * row
    if s.segment.new:
        return ctl.read(address, nbytes)
    if not s.segment.crc_addr:
        return kv.read(address, nbytes)
    begin, end = _extent(s, kind)
    return kv.read(begin, end - begin)[address - begin : address - begin + nbytes]


def _bad_page(kv: Master, ctl: Master, s: Slice, kind: Kind) -> int | None:
    """The first page of the segment whose last byte the slice brought and that differs from its checksum."""
    if not s.segment.crc_addr:
        return None
    first_page, _ = s.segment.pages(_address(s.segment, kind))
    begin, end = _extent(s, kind)
    # Pages that end in (begin, end].
    pages = range((begin - first_page) // PAGE_BYTES, (end - first_page) // PAGE_BYTES)
    if not pages:
        return None
    table = ctl.read(s.segment.crc_addr + pages.start * PAGE_CRC.nbytes, len(pages) * PAGE_CRC.nbytes)
    expected = table.copy().view(np.uint32).reshape(-1, 2)[:, 0 if kind == Kind.K else 1].tolist()
    data = kv.peek(first_page + pages.start * PAGE_BYTES, len(pages) * PAGE_BYTES).tobytes()
    for i, page in enumerate(pages):
        if google_crc32c.value(data[i * PAGE_BYTES : (i + 1) * PAGE_BYTES]) != expected[i]:
            return page
    return None
