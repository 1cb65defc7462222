# SPDX-License-Identifier: Apache-2.0
"""Folders that cannot hold a volume are refused with a way out, and looking at them leaves nothing behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from nearkv.errors import UserError
from nearkv.volume_folders import check_folders, nearest_folder, probe
from nearkv_driver.registry import parse_url


def check(*urls: str) -> None:
    check_folders([parse_url(url) for url in urls])


def test_good_folders_pass_and_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    check(f"sw_emu:0?ssd={tmp_path}/there&io=buffered", f"sw_emu:1?ssd={tmp_path}/new&io=buffered")
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


@pytest.mark.usefixtures("no_direct_io")
def test_refused_direct_io_names_folder_and_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"ssd=FOLDER.*io=buffered") as caught:
        check(f"sw_emu:0?ssd={tmp_path}/volume")
    assert str(tmp_path / "volume") in str(caught.value)
    assert "TMPDIR" not in str(caught.value)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(UserError, match=r"TMPDIR.*ssd=FOLDER.*io=buffered"):
        check("sw_emu:0")
    check("sw_emu:0?io=buffered")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="this is a file"):
        check(f"sw_emu:0?ssd={tmp_path}/file")


def test_a_user_who_does_not_exist_has_no_folder() -> None:
    with pytest.raises(UserError, match="ssd=~nosuchuser/volume"):
        check("sw_emu:0?ssd=~nosuchuser/volume")


def test_the_folder_above_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        check(f"sw_emu:0?ssd={tmp_path}/no/volume")


def test_a_folder_that_cannot_be_written_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Any, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(UserError, match=r"no volume can be written here.*Permission denied"):
        check(f"sw_emu:0?ssd={tmp_path}")


def test_a_drive_that_gives_back_something_else_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkv_driver.pagestore.PageFile.read_into", lambda self, view, offset: None)
    with pytest.raises(OSError, match="not what was written"):
        probe(tmp_path, direct=False)
    assert list(tmp_path.iterdir()) == []


def test_the_nearest_folder_is_one_that_exists(tmp_path: Path) -> None:
    assert nearest_folder(tmp_path) == tmp_path
    assert nearest_folder(tmp_path / "a" / "b") == tmp_path
