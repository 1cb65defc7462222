# SPDX-License-Identifier: Apache-2.0
"""A folder is taken as what it is under the lock, and left as it was where no volume comes of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from nearkv import locked_folder
from nearkv.locked_folder import LockedFolder
from nearkv.volume_errors import VolumeBusy, VolumeMismatch
from nearkv.volume_identity import FILE_NAME, VolumeIdentity, write_identity
from nearkv_driver.errors import StorageError

from tests.support.stores import layout

WANTED = VolumeIdentity.of(layout(), 0, 1)
OTHER = VolumeIdentity.of(layout(head_size=128), 0, 1)


def test_a_volume_that_another_process_made_meanwhile_is_not_taken_for_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = locked_folder.take_lock

    def late(path: Path) -> int:
        write_identity(tmp_path / "v", OTHER)
        return lock(path)

    monkeypatch.setattr(locked_folder, "take_lock", late)
    with pytest.raises(VolumeMismatch, match="head_size = 128, this store has 64"):
        LockedFolder(tmp_path / "v", WANTED)
    monkeypatch.undo()
    other = LockedFolder(tmp_path / "v", OTHER)
    assert other.found == OTHER
    other.close()


@pytest.mark.parametrize("there", [False, True], ids=["made", "there"])
def test_a_folder_in_which_no_volume_came_to_be_is_as_it_was(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "v"
    if there:
        folder.mkdir()
    taken = LockedFolder(folder, WANTED)
    with pytest.raises(VolumeBusy):
        LockedFolder(folder, WANTED)
    taken.close(forget=True)
    taken.close(forget=True)
    assert [path.name for path in tmp_path.rglob("*")] == (["v"] if there else [])


def test_a_folder_that_has_a_volume_or_a_lock_file_keeps_it(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    LockedFolder(folder, WANTED).close()
    LockedFolder(folder, WANTED).close(forget=True)  # the lock file was there before
    assert [path.name for path in folder.iterdir()] == ["lock"]
    (folder / "lock").unlink()
    write_identity(folder, WANTED)
    LockedFolder(folder, WANTED).close(forget=True)
    assert sorted(path.name for path in folder.iterdir()) == ["lock", FILE_NAME]


def test_a_folder_that_cannot_be_locked_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> int:
        raise StorageError("cannot be opened: No space left on device", path=str(path))

    monkeypatch.setattr(locked_folder, "take_lock", full)
    with pytest.raises(StorageError, match="No space left"):
        LockedFolder(tmp_path / "v", WANTED)
    assert not list(tmp_path.iterdir())


def test_a_lock_file_that_cannot_be_removed_keeps_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    taken = LockedFolder(tmp_path, WANTED)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        taken.close(forget=True)
    LockedFolder(tmp_path, WANTED).close()


def test_a_forked_process_gives_back_no_lock_of_its_parent(tmp_path: Path) -> None:
    taken = LockedFolder(tmp_path / "v", WANTED)
    if (child := os.fork()) == 0:
        taken.close(forget=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(VolumeBusy, match=f"in use by process {os.getpid()}"):
        LockedFolder(tmp_path / "v", WANTED)
    taken.close()
    LockedFolder(tmp_path / "v", WANTED).close()


def test_what_is_refused_before_the_lock_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"its parent folder .*nowhere does not exist"):
        LockedFolder(tmp_path / "nowhere" / "v", WANTED)
    write_identity(tmp_path, OTHER)
    with pytest.raises(VolumeMismatch, match="head_size"):
        LockedFolder(tmp_path, WANTED)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_names_that_a_killed_process_left_are_durable_before_they_are_built_upon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an upgraded identity: were it the older one again after a power cut, an older program would open the index."""
    write_identity(tmp_path, WANTED)
    seen, fsync = [], os.fsync

    def noted(fd: int) -> None:
        seen.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    LockedFolder(tmp_path, WANTED).close()
    assert seen == [str(tmp_path)]


def test_what_a_crash_left_unfinished_is_removed_or_named(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    folder.mkdir()
    (folder / f"{FILE_NAME}.new").touch()
    LockedFolder(folder, WANTED).close(forget=True)
    assert not list(folder.iterdir())
    (folder / f"{FILE_NAME}.new").mkdir()
    with pytest.raises(StorageError, match=r"volume\.json\.new: cannot be removed"):
        LockedFolder(folder, WANTED)
    assert [path.name for path in folder.iterdir()] == [f"{FILE_NAME}.new"]
