# SPDX-License-Identifier: Apache-2.0
"""Collects the counters of cards and of a store from those who count: device, volume, buffer. Counts nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nearkv.card_store import CardStore
from nearkv.eviction import Eviction
from nearkv.sequence import Part, SequenceState
from nearkv.spiller import Spiller
from nearkv.stats import CardStats, StoreStats
from nearkv.store_calls import StoreCalls
from nearkv.tail import WriteBuffer


def card_stats(number: int, card: CardStore, states: Sequence[SequenceState]) -> CardStats:
    """Reads the counters of card `number`; `states` are all open sequences."""
    traffic, layout = card.device.traffic, card.layout
    kv_nbytes = sum(
        _tokens(state, part) * len(part.data.heads) * 2 * layout.row_nbytes
        for state in states
        for part in state.parts
        if part.number == number
    )
    reads = card.reader.counters
    return CardStats(
        url=card.device.url,
        path="p2p" if card.p2p else "bounce",
        io=card.volume.io,
        sequences=len(card.sequences),
        pairs=sum(len(s.heads) for s in card.sequences),
        kv_nbytes=kv_nbytes,
        resident_nbytes=card.residency.used_nbytes,
        dram_nbytes=card.dram_nbytes,
        link_down_payload=traffic.down_payload,
        link_up_payload=traffic.up_payload,
        link_overhead=traffic.down_overhead + traffic.up_overhead,
        upload_nbytes=traffic.upload_nbytes - card.bounce_nbytes,
        media_read_nbytes=card.volume.read_nbytes + traffic.checksum_nbytes,
        media_write_nbytes=card.volume.write_nbytes,
        jobs=traffic.jobs,
        lists=traffic.lists,
        kernel_beats=traffic.kv_beats,
        saturated_jobs=traffic.saturated_jobs,
        bounce_nbytes=card.bounce_nbytes + card.volume.peer_refused_nbytes,
        direct_refusals=card.volume.direct_refusals,
        endurance_nbytes=card.endurance_nbytes,
        streamed_nbytes=reads.nbytes,
        waves=reads.waves,
        waves_ahead=reads.hits,
        waves_dropped=reads.dropped,
        index_write_nbytes=card.volume.index_write_nbytes,
        kernel_cycles=traffic.kernel_cycles,
        clock_hz=card.device.info.clock_hz,
        simulated=card.device.info.simulated,
    )


def store_stats(
    cards: Sequence[CardStore],
    states: Sequence[SequenceState],
    buffer: WriteBuffer,
    spiller: Spiller,
    calls: StoreCalls,
    eviction: Eviction | None,
) -> StoreStats:
    """Of all cards, with what the store itself counts."""
    return StoreStats(
        cards=tuple(card_stats(number, card, states) for number, card in enumerate(cards)),
        formula_link_nbytes=calls.formula_nbytes,
        host_offload_nbytes=calls.offload_nbytes,
        payload_written_nbytes=sum(card.payload_written_nbytes for card in cards),
        write_buffer_nbytes=buffer.nbytes,
        write_buffer_peak_nbytes=buffer.peak_nbytes,
        read_back_nbytes=sum(card.read_back_nbytes for card in cards),
        write_buffer_limit_nbytes=buffer.limit_nbytes,
        evicted=len(eviction.evicted) if eviction else 0,
        **spiller.figures(),
    )


def closed_stats(last: StoreStats, cards: Sequence[CardStore]) -> StoreStats:
    """What the counters were before the cards were closed, with what closing wrote to their indexes."""
    counted = [
        replace(stats, index_write_nbytes=card.volume.index_write_nbytes)
        for stats, card in zip(last.cards, cards, strict=True)
    ]
    return replace(last, cards=tuple(counted))


def _tokens(state: SequenceState, part: Part) -> int:
    """Tokens of all layers that the card has for each of its heads."""
    size, stripe, tail = part.card.layout.extent_tokens, part.data.stripe, state.tail
    stored = sum(piece.tokens for tokens in tail.stored for _, piece in stripe.pieces(0, tokens, size))
    return stored + (sum(tail.end) - sum(tail.stored) if part.data.tail_slots is not None else 0)
