# SPDX-License-Identifier: Apache-2.0
"""The table says every figure once with its unit."""

from __future__ import annotations

import pytest
from nearkv.device_io import DeviceBytes
from nearkv.report import (
    endurance_used,
    human_bytes,
    link_nbytes,
    link_ratio,
    rate,
    rows,
    short_url,
    write_ratio,
)

from tests.support.figures import card_stats, result, store_stats


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (1 << 30, "1.0 GiB"),
        (5 << 40, "5.0 TiB"),
        (3 << 50, "3.0 PiB"),
    ],
)
def test_bytes_for_people(nbytes: int, text: str) -> None:
    assert human_bytes(nbytes) == text


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        human_bytes(-1)


def test_a_rate_needs_tokens_and_time() -> None:
    assert rate(10, 4.0) == 2.5
    assert rate(0, 4.0) is None
    assert rate(10, 0.0) is None


def test_link_bytes_are_payload_of_all_cards_without_overhead() -> None:
    assert link_nbytes(store_stats()) == 2 * (3000 + 2000)
    assert link_ratio(store_stats()) == 12.5


def test_where_nothing_crossed_the_link_there_is_no_ratio() -> None:
    still = store_stats(card_stats(link_down_payload=0, link_up_payload=0), host_offload_nbytes=0)
    assert link_ratio(still) is None
    assert {row.name: row.value for row in rows(result(still))}["ratio"] == "nothing moved"


def test_device_bytes_stand_apart_from_the_stores_own() -> None:
    moved = result(device=DeviceBytes(3 << 20, 1 << 20))
    told = {row.name: row.value for row in rows(moved)}
    assert told["device bytes"] == "3.0 MiB read, 1.0 MiB written by the whole process, as the system counts"
    assert {row.name: row.value for row in rows(result())}["device bytes"] == "the system does not count them"


def test_the_table_has_every_figure() -> None:
    table = {row.name: row.value for row in rows(result())}
    assert table["prefill"] == "20.0 tokens/s (40 tokens in 2.00 s)"
    assert table["decode"] == "6.0 tokens/s (3 tokens in 0.50 s)"
    assert table["KV on sw_emu:0"].startswith("1.0 MiB")
    assert table["KV on sw_emu:1"].startswith("1.0 MiB")
    assert table["link bytes"] == "9.8 KiB (5.9 KiB down, 3.9 KiB up)"
    assert table["host offload would move"] == "122.1 KiB"
    assert table["ratio"] == "12.5 (host offload / link)"
    assert table["overhead"].startswith("1.4 KiB")
    assert table["media read"] == "0 B"
    assert table["read by kernels"] == "1.5 MiB of K and V in card memory, 514.4 KiB per decoded token"
    assert table["media written"] == "16.0 KiB and 0 B of index for 15.6 KiB of K and V (ratio 1.02)"
    assert table["write buffer"] == "512 B now, 2.0 KiB at most, limit 4.0 KiB"
    assert table["spills"] == "6 done, 1 failed, 2 calls waited 0.25 s for a drive"
    assert table["bounced"] == "0 B from drives through host memory"
    assert table["endurance used"] == "the drives' rating is not known"
    assert table["path of sw_emu:0"] == "P2P, direct"
    assert "bounce" in table["path of sw_emu:1"]
    assert "buffered" in table["path of sw_emu:1"]
    assert "saturated scores" not in table


def test_index_bytes_that_are_not_known_are_not_zero() -> None:
    stats = store_stats(card_stats(index_write_nbytes=7), card_stats(index_write_nbytes=None))
    assert write_ratio(stats) is None
    table = {row.name: row.value for row in rows(result(stats))}
    assert table["media written"] == "16.0 KiB and an unknown amount of index for 15.6 KiB of K and V"


def test_saturated_scores_are_told() -> None:
    table = {row.name: row.value for row in rows(result(store_stats(card_stats(saturated_jobs=4))))}
    assert "4 jobs" in table["saturated scores"]


def test_cycles_of_a_kernel_are_told_with_their_time_and_rate() -> None:
    counted = card_stats("hw_emu:0?seed=1", kernel_cycles=15_000, clock_hz=300_000_000, simulated=True)
    hardware = card_stats("xrt:0", kernel_cycles=2_000)
    stats = store_stats(counted, hardware, card_stats(clock_hz=300_000_000, simulated=True))
    table = {row.name: row.value for row in rows(result(stats))}
    # 12,345 words of 64 bytes in 50 us
    assert table["kernel of hw_emu:0"] == "15,000 cycles: 0.050 ms at 300 MHz, K and V at 15.8 GB/s, simulated"
    assert table["kernel of xrt:0"] == "2,000 cycles"
    assert "kernel of sw_emu:0" not in table


def test_endurance_is_written_bytes_over_rated_bytes() -> None:
    card = card_stats(endurance_nbytes=7_008 * 10**12, media_write_nbytes=7_008_000)
    assert endurance_used(card) == 1e-9
    assert endurance_used(card_stats()) is None
    table = {row.name: row.value for row in rows(result(store_stats(card, card_stats())))}
    assert table["endurance used"].startswith("1.0e-09 of the rating")


def test_a_refusal_of_direct_io_is_told() -> None:
    table = {row.name: row.value for row in rows(result(store_stats(card_stats(io="buffered", direct_refusals=2))))}
    assert table["path of sw_emu:0"] == "P2P, buffered (page cache possible), direct refused by 2 files"


def test_one_token_has_no_decode_rate() -> None:
    table = {row.name: row.value for row in rows(result(decode_tokens=0, decode_s=0.0))}
    assert table["decode"] == "nothing to do"


def test_urls_are_shown_without_options() -> None:
    assert short_url("sw_emu:0?dram=4G&ssd=/a/b") == "sw_emu:0"
    assert short_url("sw_emu:0") == "sw_emu:0"
