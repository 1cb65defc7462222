# SPDX-License-Identifier: Apache-2.0
"""What a store says it has read from its drives, against the system's own count for this process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from nearkv.device_io import device_bytes
from nearkv.kvstore import KVStore
from nearkv.rates import card_rates
from nearkv.report import rows
from nearkv.timeline import Timeline

from tests.support.figures import result
from tests.support.stores import Mirror, layout

STREAMED = "sw_emu:0?dram=8M&staging=256K&resident=0&kernel=model&ssd={}&io={}"
TOKENS, STEPS = 4096, 2


def read_by_process() -> int:
    """Bytes that this process has caused to be read from drives."""
    told = device_bytes()
    if told is None:
        pytest.skip("/proc/self/io, the system's count of bytes read, cannot be read")
    return told.read


def read_from_device(folder: Path) -> int | None:
    """Bytes that the device of a folder has read for everybody, from its sectors; None where it has no such count."""
    device = folder.stat().st_dev
    try:
        text = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text()
    except OSError:
        return None
    return int(text.split()[2]) * 512


def steps(folder: Path, io: str) -> list[tuple[int, int, str]]:
    """Twice in a row the same steps: (bytes from drives that the store tells, that the system tells, the path line)."""
    told = []
    with KVStore.open(layout(), [STREAMED.format(folder, io)]) as store:
        mirror = Mirror(store)
        sequence = mirror.add()
        mirror.append([sequence], TOKENS)
        store.flush()
        for _ in range(2):
            before, counted = store.stats().cards[0].media_read_nbytes, read_by_process()
            sectors = read_from_device(folder)
            for _ in range(STEPS):
                mirror.step([sequence])
            after = store.stats()
            line = next(row.value for row in rows(result(stats=after)) if row.name.startswith("path"))
            if (sectors_after := read_from_device(folder)) is not None and sectors is not None:
                # Others read from it too, so it is never less.
                assert sectors_after - sectors >= read_by_process() - counted
            told.append((after.cards[0].media_read_nbytes - before, read_by_process() - counted, line))
    return told


def test_direct_reads_are_what_the_system_counts(tmp_path: Path) -> None:
    for said, counted, line in steps(tmp_path / "card", "direct"):
        assert said > 0.9 * STEPS * TOKENS * layout().kv_bytes_per_token
        if counted == 0:
            pytest.skip("the system counts no reads from a device: the file system lies in memory")
        assert abs(counted / said - 1) < 0.02
        assert "page cache" not in line


def test_buffered_reads_may_come_from_the_page_cache_and_say_so(tmp_path: Path) -> None:
    """Just written, so hardly anything comes from the drive: the store's own count is of requests, and says so."""
    for said, counted, line in steps(tmp_path / "card", "buffered"):
        assert said > 0.9 * STEPS * TOKENS * layout().kv_bytes_per_token
        assert counted < said
        assert "page cache possible" in line


@pytest.mark.parametrize("path", ["on", "bounce"])
def test_each_tier_counts_known_traffic(tmp_path: Path, path: str) -> None:
    """Host buffer, link, card memory, kernel and drive: none stays at nothing when all were used."""
    shape, timeline = layout(), Timeline()
    url = STREAMED.format(tmp_path / "card", "direct") + f"&p2p={path}"
    with KVStore.open(shape, [url], timeline=timeline) as store:
        mirror = Mirror(store)
        sequence = mirror.add()
        mirror.append([sequence], TOKENS)
        store.flush()
        before = store.stats()
        for _ in range(STEPS):
            mirror.step([sequence])
        after = store.stats()
    card, was, pairs = after.cards[0], before.cards[0], shape.layers * shape.kv_heads
    stored = TOKENS * shape.kv_bytes_per_token
    assert was.media_write_nbytes >= stored
    assert after.payload_written_nbytes >= stored
    assert after.write_buffer_peak_nbytes > 0
    assert card.jobs - was.jobs >= STEPS * pairs
    assert card.link_down_payload > 0 < card.link_up_payload
    assert after.formula_link_nbytes > 0
    assert card.link_overhead > 0
    assert card.dram_nbytes > 0
    assert (card.kernel_beats - was.kernel_beats) * 64 >= STEPS * stored
    assert card.streamed_nbytes - was.streamed_nbytes == pytest.approx(STEPS * stored, rel=0.05)  # checksums
    assert card.media_read_nbytes - was.media_read_nbytes == pytest.approx(STEPS * stored, rel=0.05)
    assert (card.bounce_nbytes > 0) == (path == "bounce")
    (rates,) = card_rates(timeline, after.cards)
    assert rates.read_nbytes == card.streamed_nbytes
    assert rates.read_rate is not None
    assert rates.link_rate is not None
    assert rates.overlap is not None
    assert 0 <= rates.overlap <= 1
