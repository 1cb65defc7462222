# SPDX-License-Identifier: Apache-2.0
"""The journal's file: what survives a kill, a power cut, a full disk, damage; and what is refused."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from nearkv.errors import UserError
from nearkv.session import frames
from nearkv.session import journal as journal_module
from nearkv.session.journal import Journal
from nearkv.session.journal_reading import parse_journal, read_journal
from nearkv.session.records import Crop, Header, Prompt, Sampling, Token, Turn, TurnEnd
from nearkv.volume_errors import VolumeDamaged
from nearkv_driver.errors import StorageError
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.storage_faults import Fails, FaultySyscalls, Short

HEADER = Header("trip", "default", "0123456789abcdef", "tiny", "2026-01-02T03:04:05Z")


def _turn(journal: Journal, tokens: int) -> None:
    journal.append(Turn(Sampling(), 9))
    journal.append(Prompt((1, 2, 3)))
    for i in range(tokens):
        journal.append(Token(100 + i))


def test_a_session_continues_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    with Journal.create(path, HEADER) as journal:
        _turn(journal, 2)
    journal, found = Journal.open(path)
    with journal:
        assert (found.state.tokens, found.torn_nbytes) == ([1, 2, 3, 100, 101], 0)
        journal.append(Token(7))
        journal.append(TurnEnd("end"))
    state = read_journal(path).state
    assert state.tokens == [1, 2, 3, 100, 101, 7]
    assert state.header == HEADER
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_was_appended_outlives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    journal = Journal.create(path, HEADER, every=0)
    _turn(journal, 3)  # never closed
    assert read_journal(path).state.tokens == [1, 2, 3, 100, 101, 102]
    journal.close()


@pytest.mark.parametrize(("every", "kept"), [(1, 5), (2, 4), (0, 0)])
def test_a_power_cut_loses_at_most_what_the_setting_says(tmp_path: Path, every: int, kept: int) -> None:
    calls = FaultySyscalls(SystemCalls())
    path = tmp_path / "a.journal"
    journal = Journal.create(path, HEADER, every=every, syscalls=calls)
    _turn(journal, 5)
    calls.lose_unsynced()
    # The bytes are gone, the length may not be.
    found = read_journal(path)
    assert found.state.generated == kept
    journal.close()


def test_a_torn_record_is_cut_off_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    journal = Journal.create(path, HEADER)
    _turn(journal, 2)
    whole = path.read_bytes()  # as a crash leaves it
    journal.close()
    path.write_bytes(whole[:-1])
    journal, found = Journal.open(path)
    with journal:
        assert found.torn_nbytes == 23
        assert found.state.tokens == [1, 2, 3, 100]
        journal.append(Token(101))
        assert path.read_bytes() == whole


@pytest.mark.parametrize("call", ["truncate", "fdatasync"])
def test_a_journal_that_cannot_be_opened_to_go_on_is_as_it_was(tmp_path: Path, call: str) -> None:
    path = tmp_path / "a.journal"
    journal = Journal.create(path, HEADER)
    _turn(journal, 2)
    whole = path.read_bytes()
    path.write_bytes(whole + frames.pack(4, 5, 5, b"\0\0\0\0")[:-1])
    before = path.read_bytes()
    with pytest.raises(StorageError, match="EIO"):
        Journal.open(path, syscalls=FaultySyscalls(SystemCalls(), [Fails(call)]))
    assert path.read_bytes() == (before if call == "truncate" else whole)
    with Journal.open(path)[0] as again:
        assert again.records == 5


def test_a_closed_journal_tells_damage_of_its_last_record_from_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    with Journal.create(path, HEADER) as journal:
        _turn(journal, 2)
    whole = path.read_bytes()
    journal, found = Journal.open(path)
    journal.close()
    assert (found.torn_nbytes, path.read_bytes()) == (0, whole)  # one mark is enough
    data = bytearray(whole)
    data[-frames.HEAD_NBYTES - 2] ^= 1  # in the last token
    path.write_bytes(data)
    with pytest.raises(VolumeDamaged, match=r"record 4 at byte \d+ is damaged"):
        Journal.open(path)
    path.write_bytes(whole[: -frames.HEAD_NBYTES])  # the mark itself costs nothing
    assert read_journal(path).state.tokens == [1, 2, 3, 100, 101]
    path.write_bytes(whole[:-1] + b"x")
    assert (read_journal(path).state.tokens, read_journal(path).torn_nbytes) == ([1, 2, 3, 100, 101], 20)
    path.write_bytes(whole)
    assert [type(record) for record in parse_journal(path, whole)[1]] == [Header, Turn, Prompt, Token, Token]


@pytest.mark.parametrize("full", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_too_full_for_the_mark_fails_no_close(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, full: int
) -> None:
    calls = FaultySyscalls(SystemCalls())
    path = tmp_path / "a.journal"
    journal = Journal.create(path, HEADER, syscalls=calls)
    _turn(journal, 1)
    calls.faults = [Fails("pwritev", full, first=calls.calls["pwritev"] + 1, last=None)]
    journal.close()
    assert "could not be told from a torn write" in caplog.text
    assert read_journal(path).state.tokens == [1, 2, 3, 100]


def test_what_a_killed_process_left_is_durable_before_it_is_built_upon(tmp_path: Path) -> None:
    path, calls = tmp_path / "a.journal", FaultySyscalls(SystemCalls())
    _turn(Journal.create(path, HEADER, every=0, syscalls=calls), 3)  # killed: in the file, not on the medium
    journal, _ = Journal.open(path, every=0, syscalls=calls)
    calls.lose_unsynced()
    assert read_journal(path).state.tokens == [1, 2, 3, 100, 101, 102]
    syncs = journal.syncs
    journal.settle()
    assert journal.syncs == syncs  # nothing waits
    journal.append(Token(7))
    journal.settle()
    assert journal.syncs == syncs + 1
    journal.close()


def test_a_name_that_a_killed_process_left_is_durable_before_it_is_built_upon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fsync, seen = tmp_path / "a.journal", os.fsync, []

    def noted(fd: int) -> None:
        seen.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    Journal.create(path, HEADER).close()
    monkeypatch.setattr(os, "fsync", noted)
    Journal.open(path)[0].close()
    assert seen == [str(tmp_path)]


def test_damage_is_named_and_changes_nothing_unless_accepted(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    with Journal.create(path, HEADER) as journal:
        _turn(journal, 4)
    data = bytearray(path.read_bytes())
    data[-50] ^= 4  # in the last token but one
    path.write_bytes(data)
    with pytest.raises(VolumeDamaged, match=r"record 5 at byte \d+ is damaged") as caught:
        read_journal(path)
    assert str(path) in str(caught.value)
    with pytest.raises(VolumeDamaged):
        Journal.open(path)
    assert path.read_bytes() == data
    assert read_journal(path, accept_damage=True).state.tokens == [1, 2, 3, 100, 101]
    journal, found = Journal.open(path, accept_damage=True)
    journal.close()
    assert found.state.tokens == read_journal(path).state.tokens


def test_a_full_disk_loses_no_record_that_was_appended(tmp_path: Path) -> None:
    calls = FaultySyscalls(SystemCalls())
    path = tmp_path / "a.journal"
    journal = Journal.create(path, HEADER, syscalls=calls)
    _turn(journal, 1)
    done = calls.calls["pwritev"]
    calls.faults = [Fails("pwritev", errno.ENOSPC, first=done + 1, last=done + 1)]
    with pytest.raises(StorageError, match="ENOSPC"):
        journal.append(Token(7))
    assert read_journal(path).state.tokens == [1, 2, 3, 100]
    journal.append(Token(8))
    assert read_journal(path).state.tokens == [1, 2, 3, 100, 8]
    journal.close()


def test_a_record_that_found_no_room_leaves_no_part(tmp_path: Path) -> None:
    calls = FaultySyscalls(SystemCalls())
    path = tmp_path / "a.journal"
    with Journal.create(path, HEADER, syscalls=calls) as journal:
        journal.append(Turn(Sampling(), 9))
        done = calls.calls["pwritev"]
        calls.faults = [
            Short("pwritev", 3000, nth=done + 1),
            Fails("pwritev", errno.ENOSPC, first=done + 2, last=done + 2),
        ]
        with pytest.raises(StorageError, match="ENOSPC"):
            journal.append(Prompt((7,) * 1000))
        journal.append(TurnEnd("cut"))
    found = read_journal(path)
    assert (found.torn_nbytes, found.state.turns) == (0, 1)


def test_a_journal_grows_no_larger_than_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.journal"
    monkeypatch.setattr(journal_module, "NBYTES_MAX", 2000)
    with Journal.create(path, HEADER) as journal:
        _turn(journal, 1)
        while path.stat().st_size + 24 <= 2000 - frames.HEAD_NBYTES:
            journal.append(Token(7))
        with pytest.raises(UserError, match="at most 2,000 are read again"):
            journal.append(Token(7))
    assert len(read_journal(path).state.tokens) == 3 + journal.records - len(("header", "turn", "prompt"))
    with pytest.raises(UserError, match="at most 2,000"):
        Journal.create(tmp_path / "b.journal", HEADER, records=[Crop(0)] * 100)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.journal"]


def test_a_short_write_and_an_interrupted_one_are_completed(tmp_path: Path) -> None:
    calls = FaultySyscalls(SystemCalls())
    path = tmp_path / "a.journal"
    with Journal.create(path, HEADER, syscalls=calls) as journal:
        done = calls.calls["pwritev"]
        calls.faults = [Short("pwritev", 3, nth=done + 1), Fails("pwritev", errno.EINTR, done + 2, done + 2)]
        _turn(journal, 1)
    assert read_journal(path).state.tokens == [1, 2, 3, 100]


def test_after_a_failed_sync_nothing_counts_as_stored(tmp_path: Path) -> None:
    calls = FaultySyscalls(SystemCalls())
    path = tmp_path / "a.journal"
    journal = Journal.create(path, HEADER, syscalls=calls)
    _turn(journal, 1)
    calls.faults = [Fails("fdatasync", first=calls.calls["fdatasync"] + 1, last=calls.calls["fdatasync"] + 1)]
    with pytest.raises(StorageError, match="EIO"):
        journal.append(Token(7))
    with pytest.raises(StorageError, match="an earlier sync failed"):
        journal.append(Token(8))
    with pytest.raises(StorageError, match="an earlier sync failed"):
        journal.settle()
    journal.close()


def test_a_failed_creation_leaves_no_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = FaultySyscalls(SystemCalls(), [Fails("fdatasync")])
    with pytest.raises(StorageError, match="EIO"):
        Journal.create(tmp_path / "a.journal", HEADER, syscalls=calls)
    assert not (tmp_path / "a.journal").exists()

    def failing(folder: Path) -> None:
        raise StorageError("cannot be synced: EIO", path=str(folder), errno_name="EIO")

    def refused(path: Path, target: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(journal_module, "sync_folder", failing)
        with pytest.raises(StorageError, match="cannot be synced: EIO"):
            Journal.create(tmp_path / "a.journal", HEADER)
    assert not list(tmp_path.iterdir())
    # A drive that fails from the folder's sync on: the mark at the end cannot be written either.
    calls = FaultySyscalls(SystemCalls(), [Fails("pwritev", first=2, last=None)])
    with monkeypatch.context() as patched:
        patched.setattr(journal_module, "sync_folder", failing)
        with pytest.raises(StorageError, match="cannot be synced: EIO"):
            Journal.create(tmp_path / "a.journal", HEADER, syscalls=calls)
    assert not list(tmp_path.iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refused)
        with pytest.raises(StorageError, match="cannot be created: EIO"):
            Journal.create(tmp_path / "a.journal", HEADER)
    assert not list(tmp_path.iterdir())
    with Journal.create(tmp_path / "a.journal", HEADER), pytest.raises(FileExistsError):
        Journal.create(tmp_path / "a.journal", HEADER)


def test_what_stands_in_the_way_of_a_new_journal_is_named(tmp_path: Path) -> None:
    """As a folder that somebody made, or a file in a folder that may not be written."""
    (tmp_path / "a.journal.new").mkdir()
    with pytest.raises(StorageError, match=r"a\.journal\.new: cannot be removed: E[A-Z]+ \(.*\)") as raised:
        Journal.create(tmp_path / "a.journal", HEADER)
    assert raised.value.path.endswith("a.journal.new")
    assert raised.value.errno_name in ("EISDIR", "EPERM")
    assert [path.name for path in tmp_path.iterdir()] == ["a.journal.new"]


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"SQLite format 3\0", b"\x4b\x6e"], ids=repr)
def test_a_file_that_is_no_journal(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.journal").write_bytes(data)
    with pytest.raises(VolumeDamaged, match="no header"):
        read_journal(tmp_path / "a.journal")


def test_a_missing_file_and_a_bad_setting(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="ENOENT"):
        read_journal(tmp_path / "a.journal")
    with pytest.raises(StorageError, match="ENOENT"):
        Journal.open(tmp_path / "a.journal")
    with pytest.raises(ValueError, match="every = -1"):
        Journal.create(tmp_path / "a.journal", HEADER, every=-1)


@pytest.mark.parametrize("how", ["removed", "replaced", "moved"])
def test_a_journal_that_lost_its_name_takes_no_token(tmp_path: Path, how: str) -> None:
    """As where an older copy is put back while a session is open: it would be told as stored and be in no file."""
    path = tmp_path / "a.journal"
    journal = Journal.create(path, HEADER)
    _turn(journal, 2)
    data = path.read_bytes()
    path.rename(tmp_path / "other")
    if how != "moved":
        (tmp_path / "other").unlink()
    if how == "replaced":
        path.write_bytes(data)
    records = journal.records
    for _ in range(2):
        with pytest.raises(StorageError, match="was removed or replaced while the session had it open"):
            journal.append(Token(7))
    assert journal.records == records
    if how == "moved":
        (tmp_path / "other").rename(path)
        journal.append(Token(7))
    journal.close()
    if how != "removed":
        assert read_journal(path).state.tokens == [1, 2, 3, 100, 101, *([7] if how == "moved" else [])]
