# SPDX-License-Identifier: Apache-2.0
"""A file of arrays is its owner's alone, durable under its name, and nothing is left of one that fails."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest
from nearkv.errors import UserError
from nearkv.models.tensors import TensorFile, save_tensors

ARRAYS = {"a": np.arange(6, dtype=np.float16).reshape(2, 3)}


def test_what_is_written_is_read_and_nobody_elses(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        save_tensors(ARRAYS, tmp_path / "f", {"what": "rows"})
    finally:
        os.umask(before)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600
    with TensorFile(tmp_path / "f") as file:
        assert (file.facts, file.names()) == ({"what": "rows"}, {"a"})
        np.testing.assert_array_equal(file.tensor("a"), ARRAYS["a"])


def test_the_file_is_synced_before_it_has_its_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export is what is left when its session is removed: a power cut then must not take both."""
    fsync, seen = os.fsync, []

    def noted(fd: int) -> None:
        seen.append((stat.S_ISDIR(os.fstat(fd).st_mode), (tmp_path / "f").exists()))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    save_tensors(ARRAYS, tmp_path / "f", {})
    assert seen == [(False, False), (True, True)]


def test_what_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(UserError, match=r"f cannot be written: .*irectory"):
        save_tensors(ARRAYS, tmp_path / "f", {})
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    with pytest.raises(UserError, match="nowhere"):
        save_tensors(ARRAYS, tmp_path / "nowhere" / "f", {})
