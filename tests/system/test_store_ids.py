# SPDX-License-Identifier: Apache-2.0
"""The volumes know which tokens their rows are of, through spills, crops, copies and restarts, on all cards alike."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.volume_errors import NotStored
from nearkv_driver.errors import StorageError

from tests.support.held_writer import WriterAtOnce
from tests.support.stores import Mirror, die, layout, urls

FIRST, SECOND = list(range(500, 800)), list(range(40))


def opened(folder: Path) -> KVStore:
    return KVStore.open(layout(), urls(2, folder, kernel="model"), writer=WriterAtOnce)


def filled(store: KVStore, name: str = "a") -> tuple[Mirror, int]:
    """300 tokens that came together and 40 one by one."""
    mirror = Mirror(store)
    sequence = mirror.add(name)
    store.note(sequence, FIRST)
    mirror.append([sequence], len(FIRST))
    for token in SECOND:
        store.note(sequence, [token])
        mirror.step([sequence])
    return mirror, sequence


def test_they_are_those_that_were_told(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        mirror, sequence = filled(store)
        assert store.token_ids(sequence) == (*FIRST, *SECOND)
        store.fork_named(sequence, "b")
        mirror.crop(sequence, 310)
        store.note(sequence, [7])  # of a step that never came
        store.note(sequence, [8, 9])
        mirror.append([sequence], 2)
        mirror.append([sequence], 1)  # of a token that nobody told
    with opened(tmp_path) as store:
        known = store.token_ids(store.open_sequence("a"))
        # The unit that tells them is one: with an unknown token it is unknown.
        assert known == (*FIRST[:288], *[None] * 25)
        assert store.token_ids(store.open_sequence("b")) == (*FIRST, *SECOND)


def test_what_is_no_token_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as store, pytest.raises(UserError, match=r"token 4294967296"):
        store.note(store.add_sequence("a"), [1, 2**32])


def test_a_card_put_back_older_has_rows_of_other_tokens(tmp_path: Path) -> None:
    """One card's folder comes from a backup: as many rows, whole and checked, of what was said before a crop."""
    with opened(tmp_path) as store:
        filled(store)
    shutil.copytree(tmp_path / "card1", tmp_path / "backup")
    with opened(tmp_path) as store:
        sequence = store.open_sequence("a")
        store.crop(sequence, 100)
        mirror = Mirror(store)
        for layer in range(2):
            k, v = store.read(layer, sequence)
            mirror.rows[sequence, layer] = k, v
        store.note(sequence, range(240))
        mirror.append([sequence], 240)
    shutil.rmtree(tmp_path / "card1")
    (tmp_path / "backup").rename(tmp_path / "card1")
    with opened(tmp_path) as store:
        again = store.open_sequence("a")
        assert (store.length(again), store.info(again).dropped_tokens) == (100, 240)
        assert store.info(again).reason == "the cards hold rows of different tokens from 100 on"
        mirror.store = store
        mirror.moved(sequence, again, 100)
        mirror.check_rows(again)


def test_a_prefix_with_the_key_of_other_tokens_is_not_shared(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = [b"one", b"two"]
    with opened(tmp_path) as store:
        _, sequence = filled(store)
        store.label(sequence, keys)
        assert store.shared(keys, FIRST) == 256
        assert store.shared(keys, [*FIRST[:200], 1, *FIRST[201:]]) == 128  # only the second extent differs
        assert store.shared(keys) == 256
        other = store.add_sequence("b", keys=keys, tokens=SECOND * 10)
        assert (store.length(other), "has the key of a prefix that its rows are not of" in caplog.text) == (0, True)
        third = store.add_sequence("c", keys=keys, tokens=FIRST)
        assert store.token_ids(third) == tuple(FIRST[:256])


def steps(mirror: Mirror, sequence: int, count: int) -> None:
    for _ in range(count):
        mirror.step([sequence])


def test_what_guards_a_sequence_is_asked_before_anything_becomes_durable(tmp_path: Path) -> None:
    asked: list[int] = []

    def refuse() -> None:
        raise StorageError("not now", path="journal")

    with opened(tmp_path) as store:
        mirror = Mirror(store)
        sequence = mirror.add("a")
        store.guard(sequence, lambda: asked.append(store._cards[0].volume.index.load(1).tokens))
        mirror.append([sequence], 20)
        assert asked == []  # less than a unit
        mirror.append([sequence], 80)
        assert set(asked) == {0}
        asked.clear()
        steps(mirror, sequence, 40)
        store.flush()
        assert asked[0] == 96
        assert asked[-1] == 128  # before the partial unit
        store.guard(sequence, refuse)
        with pytest.raises(StorageError, match="not now"):
            steps(mirror, sequence, 40)
        with pytest.raises(NotStored, match="not now"):
            store.flush()
        assert store._cards[0].volume.index.load(1).tokens == 140
        with pytest.raises(StorageError, match="not now"):
            mirror.append([sequence], 40)
        die(store)
    with opened(tmp_path) as store:
        assert store.length(store.open_sequence("a")) == 140


def test_a_flipped_bit_of_them_costs_rows_and_serves_none(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        filled(store)
    with sqlite3.connect(tmp_path / "card1" / "index.sqlite") as db:
        (blob,) = db.execute("SELECT ids FROM spills WHERE first = 0").fetchone()
        db.execute("UPDATE spills SET ids = ? WHERE first = 0", (blob[:400] + b"\xff" + blob[401:],))
    with opened(tmp_path) as store:
        assert store.token_ids(store.open_sequence("a")) == tuple(FIRST[:100])
