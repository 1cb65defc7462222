# SPDX-License-Identifier: Apache-2.0
"""A pipe, a device or a folder in the place of any file is refused at once: nothing waits, nothing fills memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from nearkv.errors import UserError
from nearkv.models.tensors import TensorFile
from nearkv.session.folder import SessionFolder
from nearkv.session.journal import Journal
from nearkv.session.journal_reading import read_journal
from nearkv.session.quota import read_quotas
from nearkv.volume_errors import VolumeDamaged
from nearkv.volume_files import check_regular, read_whole
from nearkv.volume_identity import FILE_NAME, read_identity
from nearkv.volume_index import VolumeIndex
from nearkv_driver.errors import StorageError

from tests.support.stored_sessions import folders, make_sessions

pytestmark = pytest.mark.timeout(60)  # a pipe that is waited for is a test that hangs


KINDS = pytest.mark.parametrize(
    "put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir], ids=["pipe", "device", "folder"]
)


def _salt(path: Path) -> object:
    return SessionFolder(path.parent.parent).salt()


READERS: dict[str, Callable[[Path], object]] = {
    "a.journal": read_journal,
    "b.journal": Journal.open,
    "tenants.toml": read_quotas,
    FILE_NAME: lambda path: read_identity(path.parent),
    "index.sqlite": lambda path: VolumeIndex(path, writable=False),
    "index.sqlite ": VolumeIndex,
    "file": TensorFile,
}


@KINDS
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_regular_file_is_refused(tmp_path: Path, name: str, put: Callable[[Path], object]) -> None:
    path = tmp_path / name.strip()
    put(path)
    kind = UserError if READERS[name] in (TensorFile, read_quotas) else VolumeDamaged
    with pytest.raises(kind, match=f"{path}:? is no regular file"):
        READERS[name](path)


@KINDS
def test_a_salt_that_is_no_file_is_refused(tmp_path: Path, put: Callable[[Path], object]) -> None:
    SessionFolder(tmp_path).salt()
    (path,) = (tmp_path / "sessions").iterdir()
    path.unlink()
    put(path)
    with pytest.raises(VolumeDamaged, match="is no regular file"):
        SessionFolder(tmp_path).salt()


@KINDS
def test_a_data_file_that_is_none_is_refused(tmp_path: Path, put: Callable[[Path], object]) -> None:
    make_sessions(tmp_path, [150])
    path = tmp_path / "card1" / "data-000000.pages"
    path.unlink()
    put(path)
    with folders(tmp_path) as store, pytest.raises(VolumeDamaged, match=f"{path}: is no regular file"):
        store.verify(store.summary("s0").session)
    with folders(tmp_path) as store, pytest.raises(VolumeDamaged, match=f"{path}: is no regular file"):
        store.remove("s0")


def test_a_file_is_read_whole_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abcd")
    assert read_whole(path, 4) == b"abcd"
    with pytest.raises(VolumeDamaged, match=f"{path}: has 4 bytes; at most 3 are read"):
        read_whole(path, 3)
    check_regular(path)
    check_regular(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        read_whole(tmp_path / "nothing", 4)
    with pytest.raises(StorageError, match="cannot be read: ENOTDIR"):
        read_whole(path / "b", 4)
