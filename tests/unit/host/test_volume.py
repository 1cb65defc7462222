# SPDX-License-Identifier: Apache-2.0
"""Space on a volume: given out once, given back, known again after a restart; files grow and cover what is indexed."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from nearkv import volume as volume_module
from nearkv.volume import Volume
from nearkv.volume_errors import VolumeDamaged
from nearkv.volume_identity import VolumeIdentity
from nearkv.volume_records import Place
from nearkv_driver.errors import StorageError
from nearkv_driver.pagestore import PageFile, aligned_buffer
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.storage_faults import Fails, FaultySyscalls

from tests.support.stores import layout

SLOT = layout().slot_nbytes


def opened(folder: Path, syscalls: FaultySyscalls | None = None, slot_nbytes: int = SLOT) -> Volume:
    return Volume(folder / "v", VolumeIdentity.of(layout(), 0, 1), slot_nbytes, syscalls=syscalls)


def test_pages_come_back_from_where_they_were_written(tmp_path: Path) -> None:
    volume = opened(tmp_path)
    places = [volume.take(2) for _ in range(5)]
    page = aligned_buffer(4096)
    for i, place in enumerate(places):
        volume.write(place, SLOT + 8192, bytes([i + 1]) * 4096)
    volume.sync()
    for i, place in enumerate(places):
        volume.read_into(place, SLOT + 8192, page)
        assert bytes(page) == bytes([i + 1]) * 4096
    assert (volume.read_nbytes, volume.write_nbytes) == (5 * 4096, 5 * 4096)
    assert volume.used_nbytes == 10 * SLOT
    volume.close()


def test_a_write_during_a_sync_is_covered_by_the_next_one(tmp_path: Path) -> None:
    """As from another thread: the write ends after the sync began, which therefore need not cover it."""

    class WriteMeanwhile(FaultySyscalls):
        volume: Volume | None = None

        def fdatasync(self, fd: int) -> None:
            volume, self.volume = self.volume, None
            if volume is not None:
                volume.write(Place(0, 1), 0, bytes(4096))
            super().fdatasync(fd)

    calls = WriteMeanwhile(SystemCalls())
    volume = opened(tmp_path, calls)
    place = volume.take(2)
    volume.write(place, 0, bytes(4096))
    calls.volume = volume
    for syncs in (1, 2, 2):
        volume.sync()
        assert calls.calls["fdatasync"] == syncs
    volume.close()


def test_files_and_folder_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        opened(tmp_path).close()
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "v").iterdir()}
    assert modes == dict.fromkeys(("data-000000.pages", "index.sqlite", "lock", "volume.json"), 0o600)
    assert stat.S_IMODE((tmp_path / "v").stat().st_mode) == 0o700


def test_what_a_failed_sync_left_is_not_taken_for_stored(tmp_path: Path) -> None:
    """Pages of two sequences: the sync for the one fails, and that for the other must not pass for want of writes."""
    calls = FaultySyscalls(SystemCalls())
    volume = opened(tmp_path, calls)
    for place in (volume.take(2), volume.take(2)):
        volume.write(place, 0, bytes(4096))
    calls.faults = [Fails("fdatasync")]
    for text in ("sync failed: EIO", "an earlier sync failed"):
        with pytest.raises(StorageError, match=text):
            volume.sync()
    volume.close()


def test_new_names_are_durable_before_they_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, fsync, synced = tmp_path / "v", os.fsync, []

    def noted(fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        synced.append((path, sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(volume_module, "_FILE_NBYTES", 2 * SLOT)
    volume = opened(tmp_path)
    assert synced[0] == (tmp_path, ["v"])
    assert volume.take(2) == Place(0, 0)
    synced.clear()
    assert volume.take(2) == Place(1, 0)
    assert [(path, "data-000001.pages" in names) for path, names in synced] == [(folder, True)]
    volume.close()


def test_a_file_whose_name_is_not_durable_takes_no_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut could take it, with pages that the index names by then."""

    def failing(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(volume_module, "_FILE_NBYTES", 2 * SLOT)
    volume = opened(tmp_path)
    volume.take(2)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        for _ in range(2):
            with pytest.raises(StorageError, match=r"v: the names in it cannot be synced: EIO"):
                volume.take(2)
    assert not (tmp_path / "v" / "data-000001.pages").exists()
    assert volume.take(2) == Place(1, 0)
    volume.close()


def test_a_file_that_cannot_be_closed_keeps_neither_index_nor_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(file: PageFile) -> None:
        raise StorageError("close failed: EIO", path=file.path)

    volume = opened(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(PageFile, "close", failing)
        with pytest.raises(StorageError, match="close failed"):
            volume.close()
    assert volume.index_write_nbytes is not None
    with pytest.raises(StorageError, match="the volume is closed"):
        _ = volume.index
    opened(tmp_path).close()
    volume.close()


def test_files_split_at_their_size_and_runs_stay_whole(tmp_path: Path) -> None:
    slot_nbytes = 400 << 20
    volume = opened(tmp_path, slot_nbytes=slot_nbytes)
    assert [volume.take(1) for _ in range(3)] == [Place(0, 0), Place(0, 1), Place(1, 0)]
    assert volume.take(2) == Place(2, 0)
    assert volume.path(Place(2, 0)).name == "data-000002.pages"
    volume.close()


def test_only_indexed_space_is_taken_after_a_restart(tmp_path: Path) -> None:
    volume = opened(tmp_path)
    first, second = volume.take(1), volume.take(1)
    number = volume.index.create("a", (1,))
    volume.index.add_spill(number, 0, 32, b"", [(0, second)])
    volume.close()
    again = opened(tmp_path)
    assert again.used_nbytes == SLOT
    assert again.take(1) == first
    again.close()


def test_two_sequences_on_the_same_pages_are_noticed(tmp_path: Path) -> None:
    volume = opened(tmp_path)
    place = volume.take(1)
    for name in ("a", "b"):
        volume.index.add_spill(volume.index.create(name, (0,)), 0, 32, b"", [(0, place)])
    volume.close()
    with pytest.raises(VolumeDamaged, match="claim the same pages"):
        opened(tmp_path)


def test_a_slot_beyond_any_file_takes_no_space(tmp_path: Path) -> None:
    volume = opened(tmp_path)
    volume.index.add_spill(volume.index.create("a", (0,)), 0, 32, b"", [(0, Place(0, 10**6))])
    volume.close()
    before = {path: path.stat().st_size for path in tmp_path.rglob("*.pages")}
    with pytest.raises(VolumeDamaged, match="slot 1000000"):
        opened(tmp_path)
    assert {path: path.stat().st_size for path in tmp_path.rglob("*.pages")} == before


def test_a_cut_file_covers_its_runs_again_and_tells_what_was_missing(tmp_path: Path) -> None:
    volume = opened(tmp_path)
    place = volume.take(2)
    volume.index.add_spill(volume.index.create("a", (0, 1)), 0, 32, b"", [(0, place)])
    path = volume.path(place)
    volume.close()
    with path.open("r+b") as file:
        file.truncate(SLOT + 100)
    again = opened(tmp_path)
    assert again.torn(place) == SLOT + 100
    assert path.stat().st_size == 2 * SLOT
    again.mended(place)
    assert again.torn(place) is None
    again.close()


def test_growth_takes_what_is_needed_when_more_does_not_fit(tmp_path: Path) -> None:
    calls = FaultySyscalls(SystemCalls())
    volume = opened(tmp_path, calls)
    for _ in range(4):
        volume.take(1)
    done = calls.calls["allocate"]
    calls.faults = [Fails("allocate", errno.ENOSPC, first=done + 1, last=done + 1)]
    size = volume.path(Place(0, 0)).stat().st_size
    assert volume.take(1) == Place(0, 4)
    assert volume.path(Place(0, 0)).stat().st_size == size + SLOT
    calls.faults = [Fails("allocate", errno.ENOSPC, last=None)]
    with pytest.raises(StorageError, match=r"data-000000\.pages: disk full"):
        volume.take(1)
    volume.release(Place(0, 2), 1)
    assert volume.take(1) == Place(0, 2)
    volume.close()
    volume.close()


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "notes.txt").write_text("mine")
    opened(tmp_path).close()
    opened(tmp_path).close()
    assert (tmp_path / "v" / "notes.txt").read_text() == "mine"
