# SPDX-License-Identifier: Apache-2.0
"""What a store says it has read from its drives, against the system's own count for this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from nearkv.kvstore import KVStore
from nearkv.report import rows

from tests.support.figures import result
from tests.support.stores import Mirror, layout

STREAMED = "sw_emu:0?dram=8M&staging=256K&resident=0&kernel=model&ssd={}&io={}"
TOKENS, STEPS = 4096, 2


def read_by_process() -> int:
    """Bytes that this process has caused to be read from drives."""
    try:
        text = Path("/proc/self/io").read_text()
    except OSError as error:
        pytest.skip(f"/proc/self/io, the system's count of bytes read, cannot be read: {error}")
    return int(dict(line.split(": ") for line in text.splitlines())["read_bytes"])


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
            for _ in range(STEPS):
                mirror.step([sequence])
            after = store.stats()
            line = next(row.value for row in rows(result(stats=after)) if row.name.startswith("path"))
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
