# SPDX-License-Identifier: Apache-2.0
"""One process at a time, also where the lock file goes or is none."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
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


def test_a_link_empties_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "lock").symlink_to(tmp_path / "notes.txt")
    with pytest.raises(StorageError, match="lock: cannot be opened"):
        take_lock(tmp_path / "lock")
    assert (tmp_path / "notes.txt").read_text() == "mine"
