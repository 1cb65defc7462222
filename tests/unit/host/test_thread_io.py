# SPDX-License-Identifier: Apache-2.0
"""What a thread has written, where the system tells, and that an index counts all of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from nearkv import thread_io
from nearkv.thread_io import written_nbytes
from nearkv.volume_index import VolumeIndex
from nearkv.volume_records import Place


def test_it_grows_by_what_was_written(tmp_path: Path) -> None:
    before = written_nbytes()
    if before is None:
        pytest.skip("/proc/thread-self/io cannot be read here")
    (tmp_path / "a").write_bytes(bytes(12345))
    assert written_nbytes() == before + 12345


def test_an_index_counts_from_its_tables_to_its_closing(tmp_path: Path) -> None:
    before = written_nbytes()
    if before is None:
        pytest.skip("/proc/thread-self/io cannot be read here")
    index = VolumeIndex(tmp_path / "index.sqlite")
    tables = index.write_nbytes
    index.add_spill(index.create("a", (0,)), 0, 32, b"crcs", [(0, Place(0, 0))])
    opened = index.write_nbytes
    index.close()
    after = written_nbytes()
    assert tables is not None
    assert opened is not None
    assert after is not None
    assert 0 < tables < opened < after - before
    assert index.write_nbytes == after - before


@pytest.mark.parametrize("text", [b"", b"rchar: 1\n", b"wchar:", b"wchar: many\n"], ids=repr)
def test_a_system_that_tells_something_else_tells_nothing(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_io.os, "open", lambda *_: os.dup(0))
    monkeypatch.setattr(thread_io.os, "read", lambda *_: text)
    assert written_nbytes() is None


def test_where_it_is_not_told_it_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = os.open

    def refuse(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if str(path).startswith("/proc/"):
            raise PermissionError(13, "no", path)
        return inner(path, flags, mode)

    monkeypatch.setattr(thread_io.os, "open", refuse)
    assert written_nbytes() is None
    index = VolumeIndex(tmp_path / "index.sqlite")
    index.create("a", (0,))
    monkeypatch.undo()
    index.create("b", (0,))
    assert index.write_nbytes is None  # what was missed stays unknown
    index.close()
