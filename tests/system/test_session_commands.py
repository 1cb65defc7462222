# SPDX-License-Identifier: Apache-2.0
"""`nearkv sessions` on stored sessions, no model: bad arguments, odd files, what crashes leave, and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from nearkv import copies
from nearkv.cli import main
from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.scrub import Scrubber
from nearkv.session.folder import SEQUENCE_PREFIX, SessionFolder
from nearkv.session.repair import open_store, repair_session
from nearkv.session.sequences import open_whole
from nearkv.session.store_folders import StoreFolders
from nearkv.session.transfer import SessionFile, export_session
from nearkv.volume import Volume
from nearkv_driver.errors import StorageError
from numpy.typing import NDArray

from tests.support.stored_sessions import OpenSession, arguments, folders, make_sessions
from tests.support.stores import layout

LENGTHS = [150, 300]


@pytest.fixture
def cards(tmp_path: Path) -> list[str]:
    return make_sessions(tmp_path, LENGTHS)


def run(cards: Sequence[str], command: str, *words: str, options: Sequence[str] = ()) -> int:
    return main(["sessions", command, *arguments(cards), *options, *(["--", *words] if words else [])])


def session_id(folder: Path, name: str) -> str:
    header = SessionFolder(folder / "card0").read(name).state.header
    assert header is not None
    return header.session


def sequences(folder: Path) -> list[set[str]]:
    """What the index of each volume names."""
    found = []
    for card in ("card0", "card1"):
        with Scrubber(folder / card) as scrubber:
            found.append({name.removeprefix(SEQUENCE_PREFIX) for name in scrubber.names()})
    return found


def wanted(folder: Path, *names: str) -> list[set[str]]:
    return [{session_id(folder, name) for name in names}] * 2


def tear(folder: Path, cards: Sequence[str], name: str) -> None:
    """As a crash between the two cards' transactions leaves a sequence that was being made or removed."""
    with KVStore.open(layout(), cards) as store:
        assert copies.remove(store._cards[1].volume, SEQUENCE_PREFIX + session_id(folder, name))


def add_orphan(cards: Sequence[str]) -> None:
    """K and V of a session whose journal was not yet, or is no more."""
    with KVStore.open(layout(), cards) as store:
        sequence = store.add_sequence(SEQUENCE_PREFIX + "feed")
        rows = np.ones((1, 2, 200, 64), np.float16)
        for layer in range(2):
            store.append(layer, [sequence], rows, rows)


def test_a_session_that_lacks_heads_on_one_card_is_not_taken_for_stored(
    tmp_path: Path, cards: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    tear(tmp_path, cards, "s0")
    assert run(cards, "list", options=["--json"]) == 0
    assert [(s["name"], s["stored_tokens"]) for s in json.loads(capsys.readouterr().out)] == [("s0", 0), ("s1", 299)]
    assert run(cards, "export", "s0", str(tmp_path / "file")) == 0
    with SessionFile(tmp_path / "file") as file:  # without K and V: half of them would be zeros
        assert (file.tokens, len(file.state.tokens)) == (0, 150)
    assert run(cards, "fork", "s0", "copy") == 0
    with folders(tmp_path) as store:
        assert store.summary("copy").tokens == 150
    assert sequences(tmp_path) == wanted(tmp_path, "s1")
    tear(tmp_path, cards, "s1")
    with folders(tmp_path) as found, open_store(cards, found) as store:
        sequence, reason = open_whole(store, session_id(tmp_path, "s1"))
        assert sequence is None
        assert "lacks KV heads; found" in reason
        assert store.names() == ()
        assert open_whole(store, session_id(tmp_path, "s1")) == (None, "")


@pytest.mark.parametrize("command", ["fork", "import", "rm", "repair"])
def test_k_and_v_that_no_journal_names_go(tmp_path: Path, cards: list[str], command: str) -> None:
    assert run(cards, "export", "s0", str(tmp_path / "file")) == 0
    add_orphan(cards)
    (tmp_path / "card0" / "sessions" / "left.new").write_bytes(b"x")
    assert [len(found) for found in sequences(tmp_path)] == [3, 3]
    if command == "repair":
        with folders(tmp_path) as found:
            assert repair_session(cards, found, found.summary("s0"), "drop") == "it is good by now"
        assert sequences(tmp_path) == wanted(tmp_path, "s0", "s1")
        assert len(SessionFolder(tmp_path / "card0").read("s0").state.tokens) == 150
    elif command == "rm":
        assert run(cards, "rm", "s0") == 0
        assert sequences(tmp_path) == wanted(tmp_path, "s1")
    else:
        words = {"fork": ["s0", "new"], "import": [str(tmp_path / "file")]}[command]
        assert run(cards, command, *words, options=["--name", "new"] if command == "import" else []) == 0
        assert sequences(tmp_path) == wanted(tmp_path, "s0", "s1", "new")
    assert not list((tmp_path / "card0" / "sessions").glob("*.new"))


@pytest.mark.parametrize("command", ["fork", "import"])
def test_a_copy_whose_journal_cannot_be_written_leaves_nothing(
    tmp_path: Path, cards: list[str], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(cards, "export", "s0", str(tmp_path / "file")) == 0
    made: list[int] = []

    def full(self: SessionFolder, *_: object) -> None:
        made.extend(len(found) for found in sequences(tmp_path))
        raise StorageError("disk full", path=str(self.path), errno_name="ENOSPC")

    monkeypatch.setattr(SessionFolder, "enter", full)
    words = {"fork": ["s0", "new"], "import": [str(tmp_path / "file")]}[command]
    assert run(cards, command, *words, options=["--name", "new"] if command == "import" else []) == 3
    assert made == [3, 3]
    assert sequences(tmp_path) == wanted(tmp_path, "s0", "s1")


def test_removing_tells_when_k_and_v_have_to_wait(
    tmp_path: Path, cards: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(volume: Volume, name: str) -> bool:
        raise StorageError("disk full", path=str(volume.folder), errno_name="ENOSPC")

    with monkeypatch.context() as patched:
        patched.setattr(copies, "remove", full)
        assert run(cards, "rm", "s0") == 3
    assert "session 's0' is removed, its K and V not yet: " in capsys.readouterr().err
    assert [len(found) for found in sequences(tmp_path)] == [2, 2]
    assert run(cards, "fork", "s1", "new") == 0
    assert sequences(tmp_path) == wanted(tmp_path, "s1", "new")


@pytest.mark.parametrize("put", ["a file", "a link to nothing"])
def test_journals_that_are_not_there_now_cost_no_k_and_v(
    tmp_path: Path, cards: list[str], put: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when the journals lie on another drive, which is not mounted."""
    place, away = tmp_path / "card0" / "sessions", tmp_path / "away"
    place.rename(away)
    if put == "a file":
        place.write_bytes(b"")
    else:
        place.symlink_to(tmp_path / "unmounted")
    assert run(cards, "list") == 3
    assert f"{place}: cannot be read" in capsys.readouterr().err
    for command in (("rm", "s0"), ("fork", "s0", "x"), ("verify",)):
        assert run(cards, *command) in (2, 3)
    with folders(tmp_path) as found, pytest.raises(StorageError, match="cannot be read"), open_store(cards, found):
        pass
    place.unlink()
    place.symlink_to(away)
    assert run(cards, "verify") == 0
    assert sequences(tmp_path) == wanted(tmp_path, "s0", "s1")


def test_a_journal_that_is_a_link_to_nothing_is_not_begun_anew(
    tmp_path: Path, cards: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    sessions = SessionFolder(tmp_path / "card0")
    path = sessions.path_of("s0")
    path.rename(tmp_path / "away")
    path.symlink_to(tmp_path / "unmounted")
    assert sessions.exists("s0")
    with pytest.raises(UserError, match="there is a session 's0' already"):
        sessions.create("s0", "test")
    assert run(cards, "show", "s0") == 3
    assert "cannot be read: ENOENT" in capsys.readouterr().err
    assert path.is_symlink()


def test_a_file_that_cannot_be_written_is_told_and_leaves_nothing(
    tmp_path: Path, cards: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for path, text in ((tmp_path / "no" / "file", "cannot be written"), (tmp_path, "exists")):
        assert run(cards, "export", "s0", str(path)) == 2
        assert text in capsys.readouterr().err
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nothing")
    assert run(cards, "export", "s0", str(link)) == 2
    (tmp_path / "file.part").write_bytes(b"somebody's")
    assert run(cards, "export", "s0", str(tmp_path / "file")) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["card0", "card1", "file", "file.part", "link"]
    assert (tmp_path / "file.part").read_bytes() == b"somebody's"


def _between_layers(monkeypatch: pytest.MonkeyPatch, call: Callable[[int], None]) -> None:
    """`call` with the number of each export's read of a layer, before it."""
    rows, count = StoreFolders.rows, 0

    def read(self: StoreFolders, session: str, layer: int) -> NDArray[np.float16]:
        nonlocal count
        call(count)
        count += 1
        return rows(self, session, layer)

    monkeypatch.setattr(StoreFolders, "rows", read)


@pytest.mark.parametrize("moments", [{1}, {0, 3}], ids=str)
def test_an_export_beside_a_writer_holds_rows_of_its_tokens(
    tmp_path: Path, cards: list[str], moments: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer crops and goes on another way while the file is made."""
    with KVStore.open(layout(), cards) as store, OpenSession(store, tmp_path, "s1") as session:

        def other_way(number: int) -> None:
            if number in moments:
                session.steps.crop(100)
                session.steps.say(range(50 + number, 250 + number), max_new_tokens=2)
            else:
                session.steps.say([5], max_new_tokens=1)  # growth alone does no harm

        _between_layers(monkeypatch, other_way)
        with folders(tmp_path) as found:
            assert export_session(found, "s1", "default", tmp_path / "file") > 200
    with folders(tmp_path) as found, SessionFile(tmp_path / "file") as file, open_store(cards, found) as store:
        sequence = store.add_sequence()
        for layer in range(2):
            k, v = file.rows(layer, layout())
            store.append(layer, [sequence], k[None], v[None])
        from tests.support.store_network import StoreNetwork

        StoreNetwork(store, sequence).check(file.state.tokens[: file.tokens])


def test_an_export_that_never_finds_the_session_at_rest_is_refused(
    tmp_path: Path, cards: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with KVStore.open(layout(), cards) as store, OpenSession(store, tmp_path, "s1") as session:
        _between_layers(monkeypatch, lambda _: session.steps.crop(len(session.steps.tokens) - 1))
        with folders(tmp_path) as found, pytest.raises(StorageError, match="cropped or moved each time"):
            export_session(found, "s1", "default", tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_a_damaged_journal_is_told_in_one_document(
    tmp_path: Path, cards: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = SessionFolder(tmp_path / "card0").path_of("s1")
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    assert run(cards, "verify", "s1", options=["--json"]) == 1
    (only,) = json.loads(capsys.readouterr().out)
    assert "is damaged" in only["told"]
    assert run(cards, "verify", "s1", options=["--json", "--repair", "drop"]) == 0
    (only,) = json.loads(capsys.readouterr().out)
    assert "bytes of its journal were damaged" in only["told"]
    assert run(cards, "verify") == 0


def test_bad_names_and_values_are_refused(tmp_path: Path, cards: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for command, options, text in (
        (["show", "S0"], [], "there is no session 'S0'; known: 's0', 's1'"),
        (["show", "../s0"], [], "there is no session '../s0'"),
        (["rm", "x" * 201], [], "has 201 bytes; 200 are allowed"),
        (["fork", "s0", " "], [], "the session name ' '"),
        (["fork", "s0", "a\u202eb"], [], "printable text"),
        (["fork", "s0", "s1"], [], "there is a session 's1' already"),
        (["list"], ["--tenant", ""], "the tenant ''"),
        (["verify", "s0"], ["--repair", "all"], "allowed are recompute, drop"),
        (["import", str(tmp_path)], [], "is no regular file"),
        (["import", str(tmp_path / "no")], [], "cannot be read"),
    ):
        assert run(cards, *command, options=options) == 2
        assert text in capsys.readouterr().err
    for name in ("-x", "..", "S0", "s0 [bold]", "e\u0301", "\u00e9", "x" * 200):
        assert run(cards, "fork", "s0", name) == 0
        assert run(cards, "show", name) == 0
    assert run(cards, "list", options=["--json"]) == 0
    assert len(json.loads(capsys.readouterr().out.rpartition("╯\n")[2])) == 9
    assert {path.name for path in tmp_path.iterdir()} == {"card0", "card1"}
