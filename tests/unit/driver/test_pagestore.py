# SPDX-License-Identifier: Apache-2.0
"""The page file on a real file system, and with every fault that a drive may show."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nearkv_driver.errors import DirectIoUnavailable, StorageError
from nearkv_driver.filesystem import filesystem_of
from nearkv_driver.pagestore import PageFile, aligned_buffer
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.storage_faults import Fails, FaultySyscalls, Flip, Short

PAGE = 4096


def pages(count: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, count * PAGE, dtype=np.uint8).tobytes()


@pytest.fixture
def calls() -> FaultySyscalls:
    return FaultySyscalls(SystemCalls())


@pytest.fixture
def file(tmp_path: Path, calls: FaultySyscalls) -> PageFile:
    """64 pages of known bytes, direct; `calls` can make it fail from here on."""
    made = PageFile.open(tmp_path / "data", create=True, syscalls=calls)
    made.grow(64 * PAGE)
    made.write(pages(64), 0)
    made.sync()
    calls.calls.clear()
    return made


def read(file: PageFile, count: int, offset: int = 0) -> bytes:
    view = aligned_buffer(count * PAGE)
    file.read_into(view, offset)
    return bytes(view)


@pytest.mark.parametrize("direct", [True, False])
def test_pages_survive_reopening(tmp_path: Path, direct: bool) -> None:
    path = tmp_path / "data"
    with PageFile.open(path, create=True, direct=direct) as file:
        assert (file.size, file.io) == (0, "direct" if direct else "buffered")
        file.grow(8 * PAGE)
        file.write(pages(3), 2 * PAGE)
        file.sync()
        assert (file.write_nbytes, file.read_nbytes) == (3 * PAGE, 0)
    with PageFile.open(path, create=False, direct=direct) as file:
        assert file.size == 8 * PAGE
        assert read(file, 8) == bytes(2 * PAGE) + pages(3) + bytes(3 * PAGE)
        assert (file.write_nbytes, file.read_nbytes) == (0, 8 * PAGE)


def test_create_makes_a_new_file_only(tmp_path: Path) -> None:
    PageFile.open(tmp_path / "data", create=True).close()
    with pytest.raises(StorageError, match="EEXIST"):
        PageFile.open(tmp_path / "data", create=True)
    with pytest.raises(StorageError, match="ENOENT"):
        PageFile.open(tmp_path / "none", create=False)


def test_growing_keeps_what_is_there(file: PageFile) -> None:
    file.grow(PAGE)
    assert file.size == 64 * PAGE
    file.grow(100 * PAGE)
    assert file.size == 100 * PAGE
    assert read(file, 64) == pages(64)
    assert os.stat(file.path).st_blocks * 512 >= 100 * PAGE


@pytest.mark.parametrize("shift", [1, 64, 512])
def test_memory_that_is_not_aligned(file: PageFile, shift: int) -> None:
    data = memoryview(aligned_buffer(3 * PAGE))[shift : shift + 2 * PAGE]
    data[:] = pages(2, seed=1)
    file.write(data, 0)
    assert read(file, 2) == pages(2, seed=1)
    with pytest.raises(ValueError, match="not page-aligned"):
        file.read_into(data, 0)


@pytest.mark.parametrize(("nbytes", "offset"), [(PAGE, 1), (PAGE, 512), (100, 0), (PAGE + 1, 0), (PAGE, -PAGE)])
def test_only_whole_pages_move(file: PageFile, nbytes: int, offset: int) -> None:
    with pytest.raises(ValueError, match="multiple of 4096"):
        file.write(bytes(nbytes), offset)
    with pytest.raises(ValueError, match="multiple of 4096"):
        file.read_into(aligned_buffer(nbytes), offset)


def test_writes_stay_inside_the_preallocated_size(file: PageFile) -> None:
    with pytest.raises(ValueError, match="pass the end"):
        file.write(bytes(PAGE), 64 * PAGE)


def test_a_short_read_is_completed(file: PageFile, calls: FaultySyscalls) -> None:
    calls.faults = [Short("preadv", 3 * PAGE, 1), Short("preadv", PAGE, 2), Short("preadv", PAGE + 100, 3)]
    assert read(file, 64) == pages(64)
    assert calls.calls["preadv"] == 4
    assert file.read_nbytes == 64 * PAGE


def test_a_short_write_is_completed(file: PageFile, calls: FaultySyscalls) -> None:
    calls.faults = [Short("pwritev", PAGE, 1), Short("pwritev", 100, 2)]
    file.write(pages(4, seed=2), 0)
    assert read(file, 4) == pages(4, seed=2)


@pytest.mark.parametrize("call", ["preadv", "pwritev", "fdatasync"])
def test_interrupted_calls_are_repeated(file: PageFile, calls: FaultySyscalls, call: str) -> None:
    calls.faults = [Fails(call, errno.EINTR, 1, 3)]
    file.write(pages(2, seed=3), 0)
    file.sync()
    assert read(file, 2) == pages(2, seed=3)
    assert calls.calls[call] == 4


def test_an_early_end_names_file_and_sizes(file: PageFile, calls: FaultySyscalls) -> None:
    calls.faults = [Short("preadv", 2 * PAGE, 1), Short("preadv", 0, 2)]
    with pytest.raises(StorageError, match=rf"data: early end: wanted {4 * PAGE} bytes at {PAGE}, got {2 * PAGE}") as e:
        read(file, 4, PAGE)
    assert (e.value.path, e.value.offset, e.value.nbytes) == (file.path, PAGE, 4 * PAGE)


@pytest.mark.parametrize("left", [1, 100, PAGE - 1])
def test_a_torn_last_page_is_an_early_end(file: PageFile, left: int) -> None:
    os.truncate(file.path, 63 * PAGE + left)
    assert read(file, 63) == pages(63)
    with pytest.raises(StorageError, match="early end"):
        read(file, 2, 62 * PAGE)


def test_a_read_above_two_gib_returns_all_of_it(tmp_path: Path) -> None:
    # One call moves at most 2 GiB - 4 KiB; the length is what is tested, so the faulty calls move nothing.
    size = (2 << 30) + 8 * PAGE
    file = PageFile("sparse", 0, True, _Endless())
    file.read_into(aligned_buffer(size), 0)
    assert file.read_nbytes == size


class _Endless(SystemCalls):
    """A file without end, whose pages are what the memory already holds."""

    def preadv(self, fd: int, buffer: memoryview, offset: int) -> int:
        return min(buffer.nbytes, 0x7FFFF000)


@pytest.mark.parametrize(
    ("call", "act"),
    [("preadv", lambda f: read(f, 2, PAGE)), ("pwritev", lambda f: f.write(bytes(2 * PAGE), PAGE))],
)
def test_an_io_error_names_where_and_how(
    file: PageFile, calls: FaultySyscalls, call: str, act: Callable[[PageFile], object]
) -> None:
    calls.faults = [Fails(call)]
    with pytest.raises(StorageError, match=rf"of {2 * PAGE} bytes at {PAGE} failed: EIO") as caught:
        act(file)
    assert (caught.value.offset, caught.value.nbytes, caught.value.errno_name) == (PAGE, 2 * PAGE, "EIO")
    act(file)


def test_a_full_disk_names_needed_and_free(file: PageFile, calls: FaultySyscalls) -> None:
    calls.faults = [Fails("allocate", errno.ENOSPC)]
    with pytest.raises(StorageError, match=rf"disk full: {PAGE} bytes needed, \d+ free") as caught:
        file.grow(65 * PAGE)
    assert caught.value.errno_name == "ENOSPC"
    assert file.size == 64 * PAGE
    file.grow(65 * PAGE)
    calls.faults = [Fails("pwritev", errno.ENOSPC)]
    with pytest.raises(StorageError, match="disk full"):
        file.write(bytes(PAGE), 0)


def test_a_failed_preallocation_leaves_no_part(file: PageFile, calls: FaultySyscalls) -> None:
    class Half(SystemCalls):
        def allocate(self, fd: int, offset: int, nbytes: int) -> None:
            super().allocate(fd, offset, nbytes // 2)
            raise OSError(errno.ENOSPC, "full")

    with PageFile.open(file.path, create=False, syscalls=Half()) as other:
        with pytest.raises(StorageError, match="disk full"):
            other.grow(128 * PAGE)
        assert other.size == 64 * PAGE


@pytest.mark.parametrize("added", [0, 64])
def test_a_drive_that_refuses_to_grow_and_to_shrink_is_named(file: PageFile, added: int) -> None:
    class ReadOnly(SystemCalls):
        def allocate(self, fd: int, offset: int, nbytes: int) -> None:
            if added:
                super().allocate(fd, offset, added * PAGE)
            raise OSError(errno.EROFS, "read-only")

        def truncate(self, fd: int, nbytes: int) -> None:
            raise OSError(errno.EROFS, "read-only")

    with PageFile.open(file.path, create=False, syscalls=ReadOnly()) as other:
        with pytest.raises(StorageError, match=r"preallocation .* failed: EROFS") as caught:
            other.grow(256 * PAGE)
        assert (caught.value.errno_name, other.size) == ("EROFS", (64 + added) * PAGE)
        other.grow((64 + added) * PAGE)
        other.write(pages(1, 7), (63 + added) * PAGE)
        assert read(other, 1, (63 + added) * PAGE) == pages(1, 7)


def test_after_a_failed_sync_nothing_is_written(file: PageFile, calls: FaultySyscalls) -> None:
    calls.faults = [Fails("fdatasync")]
    file.write(bytes(PAGE), 0)
    with pytest.raises(StorageError, match="sync failed: EIO"):
        file.sync()
    with pytest.raises(StorageError, match="not known to be stored"):
        file.write(bytes(PAGE), 0)
    with pytest.raises(StorageError, match="not known to be stored"):
        file.sync()
    assert calls.calls["fdatasync"] == 1
    assert read(file, 1, PAGE) == pages(64)[PAGE : 2 * PAGE]


def test_direct_refused_at_open(tmp_path: Path, calls: FaultySyscalls) -> None:
    path = tmp_path / "data"
    for fault in (Fails("open", errno.EINVAL), Fails("pwritev", errno.EINVAL)):
        calls.faults, calls.calls = [fault], calls.calls.__class__()
        with pytest.raises(DirectIoUnavailable, match=r"refuses O_DIRECT.*io=buffered") as caught:
            PageFile.open(path, create=True, syscalls=calls)
        assert caught.value.filesystem == filesystem_of(tmp_path) != "unknown"
        assert str(path) in str(caught.value)
        assert not path.exists()
    calls.faults = []
    PageFile.open(path, create=True, direct=False, syscalls=calls).close()


def test_direct_refused_for_an_existing_file_leaves_it(file: PageFile, calls: FaultySyscalls) -> None:
    calls.faults = [Fails("preadv", errno.EINVAL)]
    with pytest.raises(DirectIoUnavailable):
        PageFile.open(file.path, create=False, syscalls=calls)
    assert Path(file.path).read_bytes() == pages(64)


@pytest.mark.parametrize("call", ["preadv", "pwritev"])
def test_direct_refused_later_goes_on_buffered_with_one_warning(
    file: PageFile, calls: FaultySyscalls, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    calls.faults = [Fails(call, errno.EINVAL)]
    with caplog.at_level(logging.WARNING):
        file.write(pages(2, seed=4), PAGE)
        assert read(file, 2, PAGE) == pages(2, seed=4)
    assert (file.io, file.direct_refusals) == ("buffered", 1)
    (record,) = caplog.records
    for word in (file.path, "EINVAL", f"of {2 * PAGE} bytes at {PAGE}", "aligned to 4096"):
        assert word in record.getMessage()
    calls.faults = [Fails("preadv", errno.EINVAL, 1, None)]
    with pytest.raises(StorageError, match="EINVAL"):
        read(file, 2)


def test_a_flipped_bit_is_seen_by_readers_of_its_page(file: PageFile, calls: FaultySyscalls) -> None:
    calls.faults = [Flip(5 * PAGE + 7, 3)]
    want = bytearray(pages(64))
    assert read(file, 5) == want[: 5 * PAGE]
    want[5 * PAGE + 7] ^= 8
    assert read(file, 64) == want


def test_unsynced_writes_are_lost_and_synced_ones_are_not(file: PageFile, calls: FaultySyscalls) -> None:
    file.write(pages(2, seed=5), 0)
    file.sync()
    file.write(pages(2, seed=6), PAGE)
    file.write(pages(1, seed=7), 2 * PAGE)
    calls.lose_unsynced()
    assert read(file, 64) == pages(2, seed=5) + pages(64)[2 * PAGE :]


def test_a_closed_file_is_refused(file: PageFile) -> None:
    file.close()
    file.close()
    for call in (lambda: file.size, lambda: read(file, 1), file.sync, lambda: file.write(bytes(PAGE), 0)):
        with pytest.raises(StorageError, match="closed"):
            call()


def test_the_file_system_is_named(tmp_path: Path) -> None:
    assert filesystem_of("/proc/self") == "proc"
    assert filesystem_of(tmp_path / "not" / "there") == "unknown"
    assert filesystem_of(tmp_path, mounts=str(tmp_path / "none")) == "unknown"
