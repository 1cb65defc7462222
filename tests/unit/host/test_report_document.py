# SPDX-License-Identifier: Apache-2.0
"""The JSON document is exact and names units in its keys; what is not known is null, not zero."""

from __future__ import annotations

import dataclasses
import json

from nearkv.device_io import DeviceBytes
from nearkv.report_document import document
from nearkv.stats import CardStats

from tests.support.figures import card_stats, result, store_stats


def test_the_document_is_exact_and_survives_json() -> None:
    read = json.loads(json.dumps(document(result())))
    assert read["texts"] == ["Paris.", "Rome."]
    assert read["tokens"] == [[1, 2, 0], [3, 0]]
    assert read["prefill"] == {"tokens": 40, "seconds": 2.0, "tokens_per_s": 20.0}
    assert read["decode"] == {"tokens": 3, "seconds": 0.5, "tokens_per_s": 6.0}
    assert read["link"] == {
        "payload_bytes": 10000,
        "down_payload_bytes": 6000,
        "up_payload_bytes": 4000,
        "formula_bytes": 10000,
        "host_offload_bytes": 125000,
        "host_offload_to_link_ratio": 12.5,
        "overhead_bytes": 1400,
        "upload_bytes": 8192,
    }
    assert read["media"]["write_bytes"] == 16384
    assert read["write_buffer"] == {"now_bytes": 512, "peak_bytes": 2048, "limit_bytes": 4096}
    assert read["media"]["write_to_payload_ratio"] == 1.024
    assert read["spills"] == {"done": 6, "failed": 1, "in_flight": 0, "waits": 2, "wait_seconds": 0.25}


def test_every_figure_of_a_card_is_in_the_document() -> None:
    marked = {field.name: 1000 + i for i, field in enumerate(dataclasses.fields(CardStats)) if field.type == "int"}
    card = document(result(store_stats(card_stats(**marked))))["cards"][0]
    assert set(marked.values()) <= set(card.values())
    assert (card["url"], card["path"], card["io"]) == ("sw_emu:0", "p2p", "direct")


def test_device_bytes_stand_apart_from_the_stores_own() -> None:
    moved = result(device=DeviceBytes(3 << 20, 1 << 20))
    assert document(moved)["device"] == {"read_bytes": 3 << 20, "written_bytes": 1 << 20}
    assert document(result())["device"] is None


def test_index_bytes_that_are_not_known_are_not_zero() -> None:
    stats = store_stats(card_stats(index_write_nbytes=7), card_stats(index_write_nbytes=None))
    media = document(result(stats))["media"]
    assert (media["index_write_bytes"], media["write_to_payload_ratio"]) == (None, None)


def test_cycles_of_a_kernel_have_their_time_where_its_clock_is_known() -> None:
    counted = card_stats("hw_emu:0?seed=1", kernel_cycles=15_000, clock_hz=300_000_000, simulated=True)
    hardware = card_stats("xrt:0", kernel_cycles=2_000)
    stats = store_stats(counted, hardware, card_stats(clock_hz=300_000_000, simulated=True))
    cards = document(result(stats))["cards"]
    assert [card["kernel_seconds"] for card in cards] == [5e-5, None, None]
    assert [card["simulated"] for card in cards] == [True, False, True]
