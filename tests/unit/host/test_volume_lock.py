# SPDX-License-Identifier: Apache-2.0
"""One process at a time, also where the lock file goes or is none."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

import pytest
from nearkv import index_reader
from nearkv.volume_errors import VolumeBusy
from nearkv.volume_lock import take_lock
from nearkv_driver.errors import StorageError


def test_a_file_that_is_removed_while_it_is_locked_is_locked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by another process whose volume came to nothing, between opening and locking the file here."""
    path, flock, calls = tmp_path / "lock", fcntl.flock, 0

    def removed(fd: int, operation: int) -> None:
        nonlocal calls
        calls += 1
        if calls <= 2:
            path.unlink()
        if calls == 2:
            path.touch()
        flock(fd, operation)

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", removed)
        fd = take_lock(path)
    assert calls == 3
    with pytest.raises(VolumeBusy, match=f"in use by process {os.getpid()}"):
        take_lock(path)
    os.close(fd)
    os.close(take_lock(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A lock file that a process of long ago left."""
    path = tmp_path / "lock"
    path.write_text("4000000\n")
    return path


def test_who_begins_to_write_waits_for_one_that_only_looks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the index is at rest is seen with a shared lock. It is held here until the writer has met it."""
    path.with_name("index.sqlite").touch()
    flock, met, opened = fcntl.flock, threading.Event(), threading.Event()
    writer: list[int] = []

    def writing() -> None:
        writer.append(take_lock(path))
        opened.set()

    def seen(fd: int, operation: int) -> None:
        try:
            flock(fd, operation)
        except BlockingIOError:
            met.set()
            raise

    thread = threading.Thread(target=writing)

    def looked_for(log: Path) -> bool:
        thread.start()
        assert met.wait(30)
        assert not opened.is_set()
        return False

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", seen)
        patched.setattr(Path, "exists", looked_for)
        assert index_reader._at_rest(path.with_name("index.sqlite"))
        thread.join(30)
    assert opened.is_set()
    assert path.read_text() == f"{os.getpid()}\n"
    assert not index_reader._at_rest(path.with_name("index.sqlite"))
    os.close(writer[0])


def test_one_that_only_looks_and_does_not_end_is_not_taken_for_the_last_writer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been stopped while it looked."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with path.open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        with pytest.raises(VolumeBusy, match=r"in use by process \(unknown\)") as raised:
            take_lock(path)
    assert raised.value.owner == 0
    assert 0.5 < sum(pauses) < 5
    os.close(take_lock(path))


def test_a_writer_is_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fd = take_lock(path)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("slept"))
    with pytest.raises(VolumeBusy, match=f"in use by process {os.getpid()}"):
        take_lock(path)
    os.close(fd)


def test_a_link_empties_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "lock").symlink_to(tmp_path / "notes.txt")
    with pytest.raises(StorageError, match="lock: cannot be opened"):
        take_lock(tmp_path / "lock")
    assert (tmp_path / "notes.txt").read_text() == "mine"
