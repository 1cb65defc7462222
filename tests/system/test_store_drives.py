# SPDX-License-Identifier: Apache-2.0
"""A store on drives that refuse, tear, interrupt, fill up and count: end to end, down to the files."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import numpy as np
import pytest
from nearkv.kvstore import KVStore
from nearkv_driver.errors import DirectIoUnavailable, StorageError
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.storage_faults import Fails, FaultySyscalls, Short

from tests.support.stores import Mirror, layout, urls


class Watched(SystemCalls):
    """Sizes of all writes; EINTR once before every read."""

    def __init__(self) -> None:
        self.writes: list[int] = []
        self.interrupted: set[tuple[int, int]] = set()

    def pwritev(self, fd: int, buffer: memoryview, offset: int) -> int:
        self.writes.append(buffer.nbytes)
        return super().pwritev(fd, buffer, offset)

    def preadv(self, fd: int, buffer: memoryview, offset: int) -> int:
        if (fd, offset) not in self.interrupted:
            self.interrupted.add((fd, offset))
            raise InterruptedError(errno.EINTR, os.strerror(errno.EINTR))
        return super().preadv(fd, buffer, offset)


@pytest.mark.parametrize("last", ["first", "all"])
@pytest.mark.parametrize("call", ["pwritev", "preadv"])
def test_direct_io_refused_after_open_goes_on_buffered_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, call: str, last: str
) -> None:
    calls = FaultySyscalls(SystemCalls())
    with KVStore.open(layout(), urls(1, tmp_path), syscalls=calls) as store:
        mirror = Mirror(store)
        sequence = mirror.add("a")
        done = calls.calls[call]

        calls.faults = [Fails(call, errno.EINVAL, first=done + 1, last=done + 1)]
        with caplog.at_level(logging.WARNING):
            mirror.append([sequence], 70)
            for _ in range(40):
                mirror.step([sequence])
            store.flush()
        (record,) = caplog.records
        text = record.getMessage()
        kind = "read" if call == "preadv" else "write"
        assert f"direct {kind} of " in text
        assert "data-000000.pages" in text
        assert "EINVAL" in text
        assert "aligned to 4096" in text
        (card,) = store.stats().cards
        assert (card.io, card.direct_refusals) == ("buffered", 1)
        assert card.media_write_nbytes > 0
        mirror.check_rows(sequence)
        if last == "all":
            # Refused whatever the mode: then it is an error, no token is lost, and nothing is called stored.
            calls.faults = [Fails(call, errno.EINVAL, first=calls.calls[call] + 1, last=None)]
            _, k, v = mirror.draw(1, 100)
            with pytest.raises(StorageError, match="EINVAL"):
                store.append(0, [sequence], k, v)
            mirror.query([sequence])
            calls.faults = []
        store.flush()
    with KVStore.open(layout(), urls(1, tmp_path)) as store:
        mirror.store = store
        assert store.length(store.open_sequence("a")) == 110
        mirror.check_rows(0)


def test_reads_that_come_in_pieces_give_the_same_bits(tmp_path: Path) -> None:
    calls = FaultySyscalls(Watched())
    with KVStore.open(layout(), urls(1, tmp_path), syscalls=calls) as store:
        mirror = Mirror(store)
        sequence = mirror.add("a")
        mirror.append([sequence], 1024)
    calls = FaultySyscalls(Watched())
    calls.faults = [Short("preadv", 4096, nth=n) for n in range(3, 40, 3)]
    with KVStore.open(layout(), urls(1, tmp_path), syscalls=calls) as store:
        mirror.store = store
        assert store.length(store.open_sequence("a")) == 1024
        mirror.query([0])
        mirror.check_rows(0)


def test_an_early_end_names_file_offset_wanted_and_got(tmp_path: Path) -> None:
    calls = FaultySyscalls(SystemCalls())
    with KVStore.open(layout(), urls(1, tmp_path), syscalls=calls) as store:
        mirror = Mirror(store)
        sequence, other = mirror.add(), mirror.add()
        mirror.append([sequence, other], 128)
        calls.faults = [Short("preadv", 0, nth=calls.calls["preadv"] + 1)]
        with pytest.raises(
            StorageError, match=r"data-000000\.pages: early end: wanted 65536 bytes at \d+, got 0"
        ) as caught:
            store.read(0, sequence)
        assert caught.value.nbytes == 65536
        mirror.check_rows(other)
        mirror.check_rows(sequence)


def test_decoding_one_token_at_a_time_writes_little_more_than_the_payload(tmp_path: Path) -> None:
    """1000 tokens, 4 layers, 768 bytes per token and layer; a write buffer of at most 1 MiB."""
    shape = layout(layers=4, query_heads=3, kv_heads=3)
    payload, calls = 1000 * 4 * 768, Watched()
    with KVStore.open(shape, urls(1, tmp_path, options="&drive=smartssd"), syscalls=calls) as store:
        sequence = store.add_sequence("a")
        rng = np.random.default_rng(44)
        q = rng.normal(size=(1, 3, 1, 64)).astype(np.float32)
        k, v = (rng.normal(size=(1, 3, 1, 64)).astype(np.float16) for _ in range(2))
        before = written_by_process()
        for _ in range(1000):
            for layer in range(4):
                store.attend(layer, [sequence], q, k, v, scale=0.125)
        store.flush()
        everything = written_by_process() - before
        stats = store.stats()
        (card,) = stats.cards
        assert stats.payload_written_nbytes == payload
        assert sum(calls.writes[1:]) == card.media_write_nbytes  # the first is the probe at open
        assert card.media_write_nbytes <= 1.25 * payload + 4096
        # Data and index together, as the system accounts them.
        assert everything <= 1.25 * payload + 2 * 4096
        assert all(n % 4096 == 0 for n in calls.writes)
        assert stats.write_buffer_peak_nbytes <= stats.write_buffer_limit_nbytes <= 1 << 20
        assert card.endurance_nbytes == 7_008 * 10**12


@pytest.mark.parametrize("options", ["", "&p2p=bounce"])
def test_pages_that_go_through_host_memory_are_counted_apart(tmp_path: Path, options: str) -> None:
    with KVStore.open(layout(), urls(1, tmp_path, options=options)) as store:
        mirror = Mirror(store)
        sequence = mirror.add()
        mirror.append([sequence], 192)
        for _ in range(33):
            mirror.step([sequence])
        store.flush()  # waits for the spill under way
        (card,) = store.stats().cards
        stored = card.media_write_nbytes
        assert stored == 224 * layout().kv_bytes_per_token
        assert card.bounce_nbytes == (stored if options else 0)
        assert card.upload_nbytes < 0.05 * stored
        assert card.path == ("bounce" if options else "p2p")


def written_by_process() -> int:
    """Bytes that this process has caused to be written to drives."""
    try:
        text = Path("/proc/self/io").read_text()
    except OSError as error:
        pytest.skip(f"/proc/self/io, the system's count of bytes written, cannot be read: {error}")
    return int(dict(line.split(": ") for line in text.splitlines())["write_bytes"])


def test_a_folder_that_refuses_direct_io_is_left_as_it_was(tmp_path: Path) -> None:
    calls = FaultySyscalls(SystemCalls(), [Fails("pwritev", errno.EINVAL, last=None)])
    with pytest.raises(DirectIoUnavailable):
        KVStore.open(layout(), urls(1, tmp_path), syscalls=calls)
    assert not list(tmp_path.iterdir())
    (tmp_path / "card0").mkdir()
    (tmp_path / "card0" / "mine").write_text("x")
    with pytest.raises(DirectIoUnavailable):
        KVStore.open(layout(), urls(1, tmp_path), syscalls=calls)
    assert [path.name for path in (tmp_path / "card0").iterdir()] == ["mine"]
