# SPDX-License-Identifier: Apache-2.0
"""A volume that an older version wrote opens with every row; one of a later version is refused, both versions named.

What writes upgrades, says so and goes on; what only reads, or is refused, leaves an older volume as it is.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import tarfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from nearkv import volume_upgrade
from nearkv.cli import main
from nearkv.kvstore import KVStore
from nearkv.volume_errors import VolumeMismatch
from nearkv.volume_identity import FORMAT, VolumeIdentity, write_identity
from nearkv.volume_schema import VERSION
from nearkv_driver.errors import StorageError

from tests.support.stored_sessions import arguments, folders, make_sessions
from tests.support.stores import layout, urls

OLD = Path(__file__).parents[1] / "vectors" / "volume-v1.tar.xz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(OLD) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 has it, Debian 12's has not
        archive.extractall(tmp_path)
    return tmp_path


def opened(folder: Path) -> KVStore:
    return KVStore.open(layout(), urls(2, folder, kernel="model"))


def check_rows(store: KVStore) -> None:
    random = np.random.default_rng(11)
    for name, tokens in (("a", 135), ("b", 5)):
        sequence = store.open_sequence(name)
        assert store.length(sequence) == tokens
        for layer in range(2):
            wanted = [random.integers(-3, 4, size=(1, 2, tokens, 64)).astype(np.float16)[0] for _ in range(2)]
            np.testing.assert_array_equal(store.read(layer, sequence), wanted)


def format_of(folder: Path) -> list[int]:
    return [json.loads((folder / f"card{i}" / "volume.json").read_text())["format"] for i in range(2)]


def test_opening_upgrades_and_keeps_every_row(folder: Path) -> None:
    assert format_of(folder) == [1, 1]
    with opened(folder) as store:
        check_rows(store)
        store.fork_named(0, "c")
    assert format_of(folder) == [FORMAT, FORMAT]
    with opened(folder) as store:
        check_rows(store)
        assert store.length(store.open_sequence("c")) == 135


# What takes from an index what its format brought, newest first.
TAKEN = {
    3: "ALTER TABLE spills DROP COLUMN ids; ALTER TABLE sequences DROP COLUMN tail_ids; PRAGMA user_version = 2;",
    2: "DROP INDEX groups_by_key; ALTER TABLE extent_groups DROP COLUMN tag; ALTER TABLE extent_groups DROP COLUMN key;"
    "ALTER TABLE sequences DROP COLUMN used_ns; ALTER TABLE sequences DROP COLUMN seal; PRAGMA user_version = 0;",
}


def make_older(folder: Path, number: int) -> None:
    """The volumes, which are closed, are as format 1 or 2 had them."""
    for i in range(2):
        with closing(sqlite3.connect(folder / f"card{i}" / "index.sqlite")) as db, db:
            for later in range(FORMAT, number, -1):
                db.executescript(TAKEN[later])
        path = folder / f"card{i}" / "volume.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": number}))


def content(folder: Path) -> dict[str, bytes]:
    """Of all files, but for what SQLite shares between processes; its log is empty."""
    assert not any(path.stat().st_size for path in folder.rglob("*-wal"))
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal"))]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def run(cards: Sequence[str], *words: str) -> int:
    return main(["sessions", words[0], *arguments(cards), *words[1:]])


@pytest.fixture
def cards(tmp_path: Path) -> list[str]:
    """Two sessions."""
    place = tmp_path / "store"
    place.mkdir()
    return make_sessions(place, [150, 300])


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    "words",
    [
        ("fork", "s0", "x"),
        ("import", "FILE", "--name", "x"),
        ("rm", "s1"),
        *(("verify", "--repair", h) for h in ("drop", "recompute")),
    ],
    ids=["fork", "import", "rm", "drop", "recompute"],
)
def test_a_command_that_writes_upgrades_and_says_so_once(
    tmp_path: Path, cards: list[str], words: tuple[str, ...], number: int, caplog: pytest.LogCaptureFixture
) -> None:
    place, file = tmp_path / "store", tmp_path / "file"
    assert run(cards, "export", "s0", str(file)) == 0
    make_older(place, number)
    told = [f"{place}/card{i}: the volume was of format {number} and is of format {FORMAT} now" for i in range(2)]
    assert run(cards, *(str(file) if word == "FILE" else word for word in words)) == 0
    assert [message.partition(";")[0] for message in caplog.messages] == told
    assert format_of(place) == [FORMAT, FORMAT]
    caplog.clear()
    assert run(cards, "fork", "s0", "y") == 0
    assert run(cards, "verify") == 0
    assert not caplog.messages


def test_repair_of_an_older_volume_upgrades_and_repairs(
    tmp_path: Path, cards: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """An upgrade moves no page, so nothing of the damage is lost by it."""
    place = tmp_path / "store"
    make_older(place, 2)
    with (place / "card1" / "data-000000.pages").open("r+b") as file:
        file.write(b"\xa5")
    assert run(cards, "verify", "s0", "--repair", "recompute", "--json") == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert len(report["bad"]) == 1
    assert "page of token 0: differs from its checksum" in report["bad"][0]
    assert "K and V from token 0 on will be computed again" in report["told"]
    assert run(cards, "verify") == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (2, ("list",)),
        (2, ("show", "s0")),
        (2, ("verify",)),
        (2, ("export", "s0", "FILE")),
        (2, ("fork", "nobody", "x")),
        (2, ("fork", "s0", "s1")),
        (2, ("import", "NONE")),
        (2, ("rm", "nobody")),
        (2, ("verify", "nobody", "--repair", "drop")),
        (2, ("verify", "--repair", "both")),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_what_reads_or_is_refused_leaves_an_older_volume_as_it_is(
    tmp_path: Path, cards: list[str], words: tuple[str, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "store"
    make_older(place, 2)
    before = content(place)
    assert run(cards, *(str(tmp_path / word) if word.isupper() else word for word in words)) == code
    assert content(place) == before
    told = capsys.readouterr().err
    if words[0] in ("list", "show", "export") or words == ("verify",):
        assert f"index version = 2, this store has {VERSION}" in told
        assert "nearkv sessions fork, import, rm and verify --repair" in told


def test_an_import_under_a_name_that_is_taken_upgrades_nothing(tmp_path: Path, cards: list[str]) -> None:
    place = tmp_path / "store"
    assert run(cards, "export", "s0", str(tmp_path / "file")) == 0
    make_older(place, 2)
    before = content(place)
    assert run(cards, "import", str(tmp_path / "file")) == 2
    assert content(place) == before


def damage_rows(place: Path) -> None:
    with closing(sqlite3.connect(place / "card1" / "index.sqlite")) as db, db:
        db.execute("UPDATE sequences SET tail_tokens = tail_tokens + 1")


def damage_index(place: Path) -> None:
    with (place / "card1" / "index.sqlite").open("r+b") as file:
        file.seek(4096)
        file.write(bytes(4096))


@pytest.mark.parametrize("damage", [damage_rows, damage_index])
@pytest.mark.parametrize(
    "words", [("fork", "s0", "x"), ("verify", "--repair", "drop"), ("rm", "s0")], ids=lambda w: w[0]
)
def test_a_damaged_index_is_refused_and_stays_of_its_format(
    tmp_path: Path,
    cards: list[str],
    damage: Callable[[Path], None],
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Upgraded, its rows would be sealed as they are; and a version that knows the older format may still open it."""
    place = tmp_path / "store"
    make_older(place, 2)
    damage(place)
    before = content(place / "card1")
    assert run(cards, *words) == 3
    assert content(place / "card1") == before
    told = capsys.readouterr().err
    assert f"{place}/card1: the volume is of format 2 and cannot be upgraded: {place}/card1/index.sqlite: " in told


@pytest.mark.parametrize("written", [False, True], ids=["before", "behind"])
def test_an_upgrade_that_fails_at_the_identity(
    folder: Path, written: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Before it is written nothing has changed; behind, the next opening goes on, as after a crash there."""

    def fail(place: Path, identity: VolumeIdentity) -> None:
        if written:
            write_identity(place, identity)
        raise StorageError("cannot be written: No space left on device", path=str(place), errno_name="ENOSPC")

    before = content(folder / "card1")
    with monkeypatch.context() as patch:
        patch.setattr(volume_upgrade, "write_identity", fail)
        kind = "was of format 1, .* not done; .*" if written else "is of format 1 and cannot be upgraded: .*"
        with pytest.raises(StorageError, match=f"{kind}No space left") as raised:
            opened(folder)
    assert raised.value.errno_name == "ENOSPC"
    assert format_of(folder) == [FORMAT if written else 1, 1]
    assert content(folder / "card1") == before
    with closing(sqlite3.connect(folder / "card0" / "index.sqlite")) as db, db:
        assert db.execute("PRAGMA user_version").fetchone() == (0,)
    assert not caplog.messages
    with opened(folder) as store:
        check_rows(store)
    assert len(caplog.messages) == 2


def test_an_upgrade_whose_commit_fails_says_so_and_goes_on_at_the_next_opening(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the file system has no room for the index's log once the identity is written."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def then_full(place: Path, identity: VolumeIdentity) -> None:
        write_identity(place, identity)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))

    monkeypatch.setattr(volume_upgrade, "write_identity", then_full)
    try:
        with pytest.raises(StorageError, match=r"card0: the volume was of format 1, .* not done; .*index\.sqlite"):
            opened(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    monkeypatch.undo()
    assert format_of(folder) == [FORMAT, 1]
    with closing(sqlite3.connect(folder / "card0" / "index.sqlite")) as db, db:
        assert db.execute("PRAGMA user_version").fetchone() == (0,)
    with opened(folder) as store:
        check_rows(store)


def test_what_format_2_wrote_is_of_tokens_that_nobody_knows(folder: Path) -> None:
    with opened(folder):
        pass
    make_older(folder, 2)
    with opened(folder) as store:
        check_rows(store)
        sequence = next(s for s in range(2) if store.length(s) == 135)
        assert store.token_ids(sequence) == (None,) * 135
        new = np.zeros((1, 2, 30, 64), np.float16)
        store.note(sequence, range(30))
        for layer in range(2):
            store.append(layer, [sequence], new, new)
    assert format_of(folder) == [FORMAT, FORMAT]
    with opened(folder) as store:
        # The unit that both came in has rows of unknown tokens, and so it is unknown itself.
        known = store.token_ids(store.open_sequence("a"))
        assert (known[:135], known[160:]) == ((None,) * 135, tuple(range(25, 30)))


def test_removing_a_session_upgrades_too(tmp_path: Path) -> None:
    """Both files: an index of format 3 beside a volume.json of format 2 would be opened as the older one."""
    make_sessions(tmp_path, [40, 50])
    make_older(tmp_path, 2)
    with folders(tmp_path) as found:
        found.remove("s0")
    assert format_of(tmp_path) == [FORMAT, FORMAT]
    with folders(tmp_path) as found:
        assert [summary.name for summary in found.summaries()] == ["s1"]


def test_an_upgrade_that_was_cut_off_goes_on(folder: Path) -> None:
    """volume.json says 2 on one card, its index is still the old one."""
    path = folder / "card0" / "volume.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
    with opened(folder) as store:
        check_rows(store)


def test_an_index_step_is_whole_or_not_at_all(folder: Path) -> None:
    """A name that the upgrade wants is taken: it fails, and what was there is there."""
    path = folder / "card1" / "index.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE groups_by_key (x)")
    with pytest.raises(Exception, match="groups_by_key"):
        opened(folder)
    assert format_of(folder) == [FORMAT, 1]
    with closing(sqlite3.connect(path)) as db, db:
        assert "tag" not in [row[1] for row in db.execute("PRAGMA table_info(extent_groups)")]
        db.execute("DROP TABLE groups_by_key")
    with opened(folder) as store:
        check_rows(store)


@pytest.mark.parametrize("version", [VERSION + 1, -3])
def test_another_index_is_refused_with_both_versions(folder: Path, version: int) -> None:
    with opened(folder):
        pass
    with closing(sqlite3.connect(folder / "card1" / "index.sqlite")) as db, db:
        db.execute(f"PRAGMA user_version = {version}")
    advice = "a later version of nearkv made" if version > 0 else "use another folder"
    with pytest.raises(VolumeMismatch, match=f"index version = {version}, this store has {VERSION}; {advice}"):
        opened(folder)
