# SPDX-License-Identifier: Apache-2.0
"""What the store reports: counters as values, and the formulas they are held against. Counts nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearkv.card_store import CardStore
from nearkv.layout import ELEMENT_NBYTES, ModelLayout
from nearkv.sequence import SequenceState


@dataclass(frozen=True)
class CardStats:
    """One card. `pairs` are its (sequence, KV head) pairs; sizes in bytes.

    kv: stored K and V, padding included. resident: extents in card memory. dram: all card memory taken by the store.
    link payload: q and new rows down, O, L and T up; overhead: descriptors, limits, statuses, alignment, both ways.
    upload: everything else that the host wrote to the card (tails, checksums, pages on the bounce path).
    media: bytes read from and written to the volume's data files.
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


@dataclass(frozen=True)
class StoreStats:
    """All cards. `formula_link_nbytes` and `host_offload_nbytes` are the sums over attend calls of the formulas below.

    payload_written: K and V rows written to volumes, without the zeros that fill a page. write_buffer: rows in host RAM
    that are newer than the last unit on flash. read_back: K and V that came back to the host.
    """

    cards: tuple[CardStats, ...]
    formula_link_nbytes: int
    host_offload_nbytes: int
    payload_written_nbytes: int
    write_buffer_nbytes: int
    write_buffer_peak_nbytes: int
    read_back_nbytes: int


def link_nbytes(layout: ModelLayout, query_tokens: int, new_tokens: int) -> int:
    """What one sequence and layer must move over the link: q and the new rows down, O with L and T up."""
    down = layout.query_heads * layout.d_pad * 4 * query_tokens + layout.kv_heads * 2 * layout.row_nbytes * new_tokens
    return down + layout.query_heads * (layout.d_pad * 4 + 8) * query_tokens


def offload_nbytes(layout: ModelLayout, tokens: int) -> int:
    """What moving the K and V of one sequence and layer to the host would take."""
    return 2 * layout.kv_heads * layout.d_pad * ELEMENT_NBYTES * tokens


def card_stats(number: int, card: CardStore, states: Sequence[SequenceState]) -> CardStats:
    """Reads the counters of card `number`; `states` are all open sequences."""
    traffic, layout = card.device.traffic, card.layout
    kv_nbytes = sum(
        sum(state.tail.end) * len(part.data.heads) * 2 * layout.row_nbytes
        for state in states
        for part in state.parts
        if part.number == number
    )
    return CardStats(
        url=card.device.url,
        path="p2p" if card.p2p else "bounce",
        io=card.volume.io,
        sequences=len(card.sequences),
        pairs=sum(len(s.heads) for s in card.sequences),
        kv_nbytes=kv_nbytes,
        resident_nbytes=card.pool.used_nbytes,
        dram_nbytes=card.dram_nbytes,
        link_down_payload=traffic.down_payload,
        link_up_payload=traffic.up_payload,
        link_overhead=traffic.down_overhead + traffic.up_overhead,
        upload_nbytes=traffic.upload_nbytes,
        media_read_nbytes=card.volume.read_nbytes,
        media_write_nbytes=card.volume.write_nbytes,
        jobs=traffic.jobs,
        lists=traffic.lists,
        kernel_beats=traffic.kv_beats,
        saturated_jobs=traffic.saturated_jobs,
    )
