# SPDX-License-Identifier: Apache-2.0
"""A finished generation with plain figures, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from nearkv.generate import GenerationResult
from nearkv.stats import CardStats, StoreStats


def card_stats(url: str = "sw_emu:0", **changes: Any) -> CardStats:
    values: dict[str, Any] = {
        "url": url,
        "path": "p2p",
        "io": "direct",
        "sequences": 2,
        "pairs": 3,
        "kv_nbytes": 1 << 20,
        "resident_nbytes": 1 << 19,
        "dram_nbytes": 1 << 21,
        "link_down_payload": 3000,
        "link_up_payload": 2000,
        "link_overhead": 700,
        "upload_nbytes": 4096,
        "media_read_nbytes": 0,
        "media_write_nbytes": 8192,
        "jobs": 60,
        "lists": 30,
        "kernel_beats": 12345,
        "saturated_jobs": 0,
        "bounce_nbytes": 0,
        "direct_refusals": 0,
        "endurance_nbytes": 0,
    }
    return CardStats(**{**values, **changes})


def store_stats(*cards: CardStats, **changes: Any) -> StoreStats:
    values: dict[str, Any] = {
        "cards": cards or (card_stats("sw_emu:0"), card_stats("sw_emu:1?dram=1G", path="bounce", io="buffered")),
        "formula_link_nbytes": 10000,
        "host_offload_nbytes": 125000,
        "payload_written_nbytes": 16000,
        "write_buffer_nbytes": 512,
        "write_buffer_peak_nbytes": 2048,
        "read_back_nbytes": 0,
        "write_buffer_limit_nbytes": 4096,
        "spills": 6,
        "spills_failed": 1,
        "spills_in_flight": 0,
        "spill_waits": 2,
        "spill_wait_s": 0.25,
    }
    return StoreStats(**{**values, **changes})


def result(stats: StoreStats | None = None, **changes: Any) -> GenerationResult:
    values: dict[str, Any] = {
        "texts": ("Paris.", "Rome."),
        "tokens": ((1, 2, 0), (3, 0)),
        "prefill_tokens": 40,
        "prefill_s": 2.0,
        "decode_tokens": 3,
        "decode_s": 0.5,
        "stats": stats or store_stats(),
    }
    return GenerationResult(**{**values, **changes})
