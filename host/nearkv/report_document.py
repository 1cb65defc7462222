# SPDX-License-Identifier: Apache-2.0
"""A generation's figures as a JSON document for programs: exact, with units in the keys. Pure: it writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearkv.report import (
    endurance_used,
    index_write_nbytes,
    kernel_nbytes,
    kernel_s,
    link_nbytes,
    link_ratio,
    per_decoded_token,
    rate,
    total,
    write_ratio,
)

if TYPE_CHECKING:
    from nearkv.generate import GenerationResult
    from nearkv.stats import CardStats


def document(result: GenerationResult) -> dict[str, Any]:
    """Texts, token ids and every figure."""
    stats = result.stats
    return {
        "texts": list(result.texts),
        "tokens": [list(ids) for ids in result.tokens],
        "prefill": _timing(result.prefill_tokens, result.prefill_s),
        "decode": _timing(result.decode_tokens, result.decode_s),
        "link": {
            "payload_bytes": link_nbytes(stats),
            "down_payload_bytes": total(stats, "link_down_payload"),
            "up_payload_bytes": total(stats, "link_up_payload"),
            "formula_bytes": stats.formula_link_nbytes,
            "host_offload_bytes": stats.host_offload_nbytes,
            "host_offload_to_link_ratio": link_ratio(stats),
            "overhead_bytes": total(stats, "link_overhead"),
            "upload_bytes": total(stats, "upload_nbytes"),
        },
        "kernel": {
            "kv_read_bytes": kernel_nbytes(stats),
            "kv_read_bytes_per_decoded_token": per_decoded_token(kernel_nbytes(stats), result),
        },
        "media": {
            "read_bytes": total(stats, "media_read_nbytes"),
            "streamed_bytes": total(stats, "streamed_nbytes"),
            "streamed_bytes_per_decoded_token": per_decoded_token(total(stats, "streamed_nbytes"), result),
            "write_bytes": total(stats, "media_write_nbytes"),
            "index_write_bytes": index_write_nbytes(stats),
            "payload_written_bytes": stats.payload_written_nbytes,
            "write_to_payload_ratio": write_ratio(stats),
            "read_back_bytes": stats.read_back_nbytes,
            "bounce_bytes": total(stats, "bounce_nbytes"),
        },
        "device": result.device and {"read_bytes": result.device.read, "written_bytes": result.device.written},
        "write_buffer": {
            "now_bytes": stats.write_buffer_nbytes,
            "peak_bytes": stats.write_buffer_peak_nbytes,
            "limit_bytes": stats.write_buffer_limit_nbytes,
        },
        "spills": {
            "done": stats.spills,
            "failed": stats.spills_failed,
            "in_flight": stats.spills_in_flight,
            "waits": stats.spill_waits,
            "wait_seconds": stats.spill_wait_s,
        },
        "evicted_sequences": stats.evicted,
        "cards": [_card_document(card) for card in stats.cards],
    }


def _timing(tokens: int, seconds: float) -> dict[str, Any]:
    return {"tokens": tokens, "seconds": seconds, "tokens_per_s": rate(tokens, seconds)}


def _card_document(card: CardStats) -> dict[str, Any]:
    return {
        "url": card.url,
        "path": card.path,
        "io": card.io,
        "sequences": card.sequences,
        "pairs": card.pairs,
        "kv_bytes": card.kv_nbytes,
        "resident_bytes": card.resident_nbytes,
        "dram_bytes": card.dram_nbytes,
        "link_down_payload_bytes": card.link_down_payload,
        "link_up_payload_bytes": card.link_up_payload,
        "link_overhead_bytes": card.link_overhead,
        "upload_bytes": card.upload_nbytes,
        "media_read_bytes": card.media_read_nbytes,
        "media_write_bytes": card.media_write_nbytes,
        "jobs": card.jobs,
        "lists": card.lists,
        "kernel_beats": card.kernel_beats,
        "kernel_cycles": card.kernel_cycles,
        "kernel_seconds": kernel_s(card),
        "clock_hz": card.clock_hz,
        "simulated": card.simulated,
        "saturated_jobs": card.saturated_jobs,
        "bounce_bytes": card.bounce_nbytes,
        "direct_refusals": card.direct_refusals,
        "endurance_bytes": card.endurance_nbytes,
        "endurance_used": endurance_used(card),
        "streamed_bytes": card.streamed_nbytes,
        "waves": card.waves,
        "waves_ahead": card.waves_ahead,
        "waves_dropped": card.waves_dropped,
        "index_write_bytes": card.index_write_nbytes,
    }
