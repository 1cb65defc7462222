# SPDX-License-Identifier: Apache-2.0
"""Salts of tenants: private, lasting, different, and refused when they are not whole. Headers of journals, and what no
journal names.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from nearkv.session.folder import SessionFolder
from nearkv.session.records import Prompt, Sampling, Turn
from nearkv.session.sequences import drop_orphans
from nearkv.volume_errors import VolumeDamaged


def test_a_salt_lasts_and_is_its_tenants_alone(tmp_path: Path) -> None:
    salt = SessionFolder(tmp_path).salt("a")
    assert SessionFolder(tmp_path).salt("a") == salt
    assert SessionFolder(tmp_path).salt("b") != salt
    assert len(salt) == 32
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "sessions").iterdir()} == {0o600}


def test_names_are_durable_when_a_session_is_made_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync, synced = os.fsync, []

    def noted(fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        synced.append((path, sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    folder = SessionFolder(tmp_path)
    journal, _ = folder.create("trip", "tiny")
    journal.close()
    assert synced == [(tmp_path, ["sessions"]), (folder.path, [folder.path_of("trip").name])]
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    synced.clear()
    folder.remove("trip")
    assert synced == [(folder.path, [])]


@pytest.mark.parametrize("nbytes", [0, 31, 33])
def test_a_salt_of_another_size_is_refused(tmp_path: Path, nbytes: int) -> None:
    SessionFolder(tmp_path).salt("a")
    (path,) = (tmp_path / "sessions").iterdir()
    path.write_bytes(bytes(nbytes))
    with pytest.raises(VolumeDamaged, match=f"has {nbytes} bytes, not 32"):
        SessionFolder(tmp_path).salt("a")


def test_headers_are_read_whatever_follows_them(tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    assert folder.headers() == []
    made = []
    for name in ("a", "\u00e9" * 100):
        journal, header = folder.create(name, "m", tenant="x" * 200)
        made.append(header.session)
        with journal:
            journal.append(Turn(Sampling(), 9))
            journal.append(Prompt(tuple(range(9999))))
    path = folder.path_of("a", "x" * 200)
    path.write_bytes(path.read_bytes()[:-20000] + b"x" * 20000)
    assert sorted(header.session for header in folder.headers()) == sorted(made)
    for data, text in ((b"", "it has no header"), (b"x" * 99, "it has no header")):
        path.write_bytes(data)
        with pytest.raises(VolumeDamaged, match=text):
            folder.headers()


def test_k_and_v_go_only_where_every_header_can_be_read(tmp_path: Path) -> None:
    folder, gone = SessionFolder(tmp_path), []
    journal, header = folder.create("a", "m")
    journal.close()
    names = [f"session:{header.session}", "session:feed", "another"]
    drop_orphans(folder, names, gone.append)
    assert gone == ["session:feed"]
    (tmp_path / "sessions" / "b.journal").write_bytes(b"")
    drop_orphans(folder, names, gone.append)
    assert gone == ["session:feed"]


def test_a_session_that_is_removed_meanwhile_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor told as damaged. A link to a journal that is not there now is."""
    folder = SessionFolder(tmp_path)
    for name in ("a", "b"):
        folder.create(name, "m")[0].close()
    (folder.path / "dead.journal").symlink_to(tmp_path / "nowhere")
    read = os.open

    def removed(path: str, *values: int, **named: int) -> int:
        if str(path) == str(folder.path_of("a")):
            folder.path_of("a").unlink()
        return read(path, *values, **named)

    monkeypatch.setattr(os, "open", removed)
    found = list(folder.entries())
    assert not folder.exists("a")
    assert [entry.path.name for entry in found] == [folder.path_of("b").name, "dead.journal"]
    assert [bool(entry.error) for entry in found] == [False, True]
