# SPDX-License-Identifier: Apache-2.0
"""What the store reports: counters as values, and the formulas they are held against. Counts nothing itself."""

from __future__ import annotations

from dataclasses import dataclass

from nearkv.layout import ELEMENT_NBYTES, ModelLayout


@dataclass(frozen=True)
class CardStats:
    """One card. `pairs` are its (sequence, KV head) pairs; sizes in bytes.

    kv: stored K and V, padding included. resident: extents in card memory. dram: all card memory taken by the store.
    link payload: q and new rows down, O, L and T up; overhead: descriptors, limits, statuses, alignment, both ways.
    upload: everything else that the host wrote to the card (tails, checksums). bounce: pages that went from the drive
    through host memory to the card, none with P2P. media: bytes read from and written to the volume's data files, and
    checksums that travelled with streamed pages. direct_refusals: files that were opened for direct I/O and lost it.
    endurance: bytes that the drive is rated to take in its life, 0 where that is not known. streamed: bytes read from
    flash in waves because they are not in card memory. waves: how many were used; ahead: of those, on their way before
    they were asked for; dropped: read in vain. index: bytes written to the volume's index and its log, None where the
    system does not tell. kernel_cycles:
    what kernels with a clock took for their lists, START to last status; clock_hz: that clock, 0 where it is not known;
    simulated: no hardware is behind the card. Where tokens are split over cards, a pair counts on each card that has
    part of it.
    """

    url: str
    path: str
    io: str
    sequences: int
    pairs: int
    kv_nbytes: int
    resident_nbytes: int
    dram_nbytes: int
    link_down_payload: int
    link_up_payload: int
    link_overhead: int
    upload_nbytes: int
    media_read_nbytes: int
    media_write_nbytes: int
    jobs: int
    lists: int
    kernel_beats: int
    saturated_jobs: int
    bounce_nbytes: int = 0
    direct_refusals: int = 0
    endurance_nbytes: int = 0
    streamed_nbytes: int = 0
    waves: int = 0
    waves_ahead: int = 0
    waves_dropped: int = 0
    index_write_nbytes: int | None = 0
    kernel_cycles: int = 0
    clock_hz: int = 0
    simulated: bool = False


@dataclass(frozen=True)
class StoreStats:
    """All cards. `formula_link_nbytes` and `host_offload_nbytes` are the sums over attend calls of the formulas below.

    payload_written: K and V rows written to volumes, without the zeros that fill a page. write_buffer: rows in host RAM
    that are newer than the last unit on flash, and the copies that are being written; limit: what they cannot exceed.
    read_back: K and V that came back to the host. spills: those that ended well, that failed, that are under way.
    spill_waits: attend calls that stood still because a drive was behind, and for how long. evicted: closed sequences
    that went to make room.
    """

    cards: tuple[CardStats, ...]
    formula_link_nbytes: int
    host_offload_nbytes: int
    payload_written_nbytes: int
    write_buffer_nbytes: int
    write_buffer_peak_nbytes: int
    read_back_nbytes: int
    write_buffer_limit_nbytes: int = 0
    spills: int = 0
    spills_failed: int = 0
    spills_in_flight: int = 0
    spill_waits: int = 0
    spill_wait_s: float = 0.0
    evicted: int = 0


def link_nbytes(layout: ModelLayout, query_tokens: int, new_tokens: int) -> int:
    """What one sequence and layer must move over the link: q and the new rows down, O with L and T up."""
    down = layout.query_heads * layout.d_pad * 4 * query_tokens + layout.kv_heads * 2 * layout.row_nbytes * new_tokens
    return down + layout.query_heads * (layout.d_pad * 4 + 8) * query_tokens


def offload_nbytes(layout: ModelLayout, tokens: int) -> int:
    """What moving the K and V of one sequence and layer to the host would take."""
    return 2 * layout.kv_heads * layout.d_pad * ELEMENT_NBYTES * tokens
