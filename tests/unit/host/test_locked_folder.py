# SPDX-License-Identifier: Apache-2.0
"""A folder is taken as what it is under the lock, and left as it was where no volume comes of it."""

from __future__ import annotations

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


def test_what_is_refused_before_the_lock_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"its parent folder .*nowhere does not exist"):
        LockedFolder(tmp_path / "nowhere" / "v", WANTED)
    write_identity(tmp_path, OTHER)
    with pytest.raises(VolumeMismatch, match="head_size"):
        LockedFolder(tmp_path, WANTED)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


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
