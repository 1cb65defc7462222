# SPDX-License-Identifier: Apache-2.0
"""Makes the kernel's jobs for one query on one card: whole, or wave by wave with a state handed on. Sends nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from nearkv_driver.commands import AttendJob, SegmentTable
from nearkv_driver.regmap import PAGE_BYTES, SEGMENT
from nearkv_driver.sizes import state_nbytes

from nearkv.layout import ModelLayout
from nearkv.query import Source
from nearkv.staging import Slot
from nearkv.waves import Share


@dataclass(frozen=True)
class Attention:
    """What is the same for all jobs of a call."""

    layout: ModelLayout
    layer: int
    scale: float
    window: int


@dataclass(frozen=True, eq=False)
class Entry:
    """A job and whose it is: KV head `head`. `streamed` numbers the groups of its first segments; `last`: it gives the
    output."""

    source: Source
    head: int
    job: AttendJob
    streamed: tuple[int, ...]
    last: bool


def states_nbytes(source: Source, layout: ModelLayout) -> int:
    """Card memory for the states of all heads of a source."""
    return len(source.part.data.heads) * _state_nbytes(source, layout)


def entries(
    call: Attention, source: Source, share: Share | None, slot: Slot | None, states: tuple[int, int]
) -> list[Entry]:
    """One per KV head. `share` of the wave in `slot` (None: nothing is streamed); `states` are the device addresses of
    the set to start from and of the set to leave, both used only where the share is not the first, not the last."""
    layout, layer, query, part = call.layout, call.layer, source.query, source.part
    begins = share is None or share.first == 0
    ends = share is None or share.end == len(source.reach.fetches)
    table, tail = part.data.table, query.state.tail
    streamed: tuple[int, ...] = ()
    segments = np.zeros((len(part.data.heads), 0), SEGMENT.dtype)
    if share is not None and slot is not None:
        streamed = source.reach.absent[share.first : share.end]
        segments = _streamed(call, source, share, slot)
    owner, stored, end = part.data.tail_slots is not None, tail.stored[layer], tail.end[layer]
    fresh = owner and ends and query.k is not None
    if ends:
        kept = table.segments(layer, source.reach.skip, end - stored if owner else 0, tail.row(layer, stored))
        segments = _joined(segments, kept) if streamed else kept
    new_row = tail.row(layer, end)
    size = _state_nbytes(source, layout)
    found = []
    for i, head in enumerate(part.data.heads):
        k_address, v_address = table.tail_addresses(layer, i, new_row) if fresh else (0, 0)
        job = AttendJob(
            head_size=layout.head_size,
            q=query.q[head].reshape(query.tokens * layout.group, layout.head_size),
            limits=query.limits(layer),
            scale=call.scale,
            window=call.window,
            segments=segments[i],
            new_k=query.k[head] if fresh and query.k is not None else None,
            new_v=query.v[head] if fresh and query.v is not None else None,
            new_first=end if fresh else 0,
            tail_k_addr=k_address,
            tail_v_addr=v_address,
            state_in=0 if begins else states[0] + i * size,
            state_out=0 if ends else states[1] + i * size,
            output=ends,
            raw=ends and source.raw,
        )
        found.append(Entry(source, head, job, streamed, ends))
    return found


def _streamed(call: Attention, source: Source, share: Share, slot: Slot) -> SegmentTable:
    """[heads, segments] of the pages in a staging buffer."""
    layout, data = call.layout, source.part.data
    heads, count = len(data.heads), share.end - share.first
    found: SegmentTable = np.zeros((heads, count), SEGMENT.dtype)
    number = np.arange(count)[None, :] * heads + np.arange(heads)[:, None] + share.offset // layout.extent_nbytes
    for j, index in enumerate(source.reach.absent[share.first : share.end]):
        known = data.table.heads_of(call.layer, index)
        found["tokens"][:, j], found["first_position"][:, j] = known["tokens"], known["first_position"]
    inside = found["first_position"].astype(np.uint64) % np.uint64(layout.extent_tokens) * np.uint64(layout.row_nbytes)
    found["k_addr"] = slot.address + number.astype(np.uint64) * np.uint64(layout.extent_nbytes) + inside
    found["v_addr"] = found["k_addr"] + np.uint64(layout.extent_nbytes // 2)
    pages = inside // np.uint64(PAGE_BYTES)
    found["crc_addr"] = slot.crc_address + number.astype(np.uint64) * np.uint64(layout.extent_pages * 8) + 8 * pages
    return found


def _joined(a: SegmentTable, b: SegmentTable) -> SegmentTable:
    """Side by side; np.concatenate would drop the padding of the structure."""
    both: SegmentTable = np.empty((len(a), a.shape[1] + b.shape[1]), SEGMENT.dtype)
    both[:, : a.shape[1]], both[:, a.shape[1] :] = a, b
    return both


def _state_nbytes(source: Source, layout: ModelLayout) -> int:
    return state_nbytes(source.query.tokens * layout.group, layout.head_size)
