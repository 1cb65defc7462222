# SPDX-License-Identifier: Apache-2.0
"""A volume that an older version wrote opens with every row; one of a later version is refused, both versions named."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from pathlib import Path

import numpy as np
import pytest
from nearkv.kvstore import KVStore
from nearkv.volume_errors import VolumeMismatch
from nearkv.volume_identity import FORMAT
from nearkv.volume_schema import VERSION

from tests.support.stored_sessions import folders, make_sessions
from tests.support.stores import layout, urls

OLD = Path(__file__).parents[1] / "vectors" / "volume-v1.tar.xz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
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


def make_format_2(folder: Path) -> None:
    """The volumes, which are closed, are as format 2 had them."""
    for i in range(2):
        with sqlite3.connect(folder / f"card{i}" / "index.sqlite") as db:
            db.execute("ALTER TABLE spills DROP COLUMN ids")
            db.execute("ALTER TABLE sequences DROP COLUMN tail_ids")
            db.execute("PRAGMA user_version = 2")
        path = folder / f"card{i}" / "volume.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))


def test_what_format_2_wrote_is_of_tokens_that_nobody_knows(folder: Path) -> None:
    with opened(folder):
        pass
    make_format_2(folder)
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
    make_format_2(tmp_path)
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
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE groups_by_key (x)")
    with pytest.raises(Exception, match="groups_by_key"):
        opened(folder)
    with sqlite3.connect(path) as db:
        assert "tag" not in [row[1] for row in db.execute("PRAGMA table_info(extent_groups)")]
        db.execute("DROP TABLE groups_by_key")
    with opened(folder) as store:
        check_rows(store)


@pytest.mark.parametrize("version", [VERSION + 1, -3])
def test_another_index_is_refused_with_both_versions(folder: Path, version: int) -> None:
    with opened(folder):
        pass
    with sqlite3.connect(folder / "card1" / "index.sqlite") as db:
        db.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(VolumeMismatch, match=f"index version = {version}, this store has {VERSION}"):
        opened(folder)
