# SPDX-License-Identifier: Apache-2.0
"""Named forks and shared prefixes: the same rows, no page written twice, and nothing left when something fails."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from nearkv import card_index
from nearkv.card_store import CardStore
from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.volume_errors import VolumeDamaged
from nearkv_driver.errors import DriverError, StorageError
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.storage_faults import Fails, FaultySyscalls

from tests.support.stores import Mirror, die, layout, urls

CARDS = 2


@pytest.fixture
def calls() -> FaultySyscalls:
    return FaultySyscalls(SystemCalls())


@pytest.fixture
def mirror(tmp_path: Path, calls: FaultySyscalls) -> Iterator[Mirror]:
    made = Mirror(KVStore.open(layout(), urls(CARDS, tmp_path, kernel="model"), syscalls=calls))
    yield made
    made.store.close()


def again(tmp_path: Path) -> KVStore:
    return KVStore.open(layout(), urls(CARDS, tmp_path, kernel="model"))


def grown(mirror: Mirror, name: str, tokens: int) -> int:
    sequence = mirror.add(name)
    if tokens:
        mirror.append([sequence], tokens)
    mirror.store.flush()
    return sequence


def written(mirror: Mirror) -> int:
    return sum(card.media_write_nbytes for card in mirror.store.stats().cards)


@pytest.mark.parametrize("tokens", [0, 5, 32, 100, 128, 256, 300, 421])
def test_a_named_fork_has_the_same_rows_and_both_go_on(mirror: Mirror, tokens: int, tmp_path: Path) -> None:
    first = grown(mirror, "a", tokens)
    mirror.store.fork_named(first, "b")
    second = mirror.copied(first, mirror.store.open_sequence("b"))
    mirror.check_rows(second)
    for sequence in (first, second):
        mirror.append([sequence], 70)
        mirror.step([sequence])
    for sequence in (first, second):
        mirror.copied(sequence, 10 + sequence)  # the next store gives the same numbers again
    mirror.store.close()
    with again(tmp_path) as store:
        mirror.store = store
        for name, sequence in (("a", first), ("b", second)):
            opened = store.open_sequence(name)
            assert store.length(opened) == tokens + 71
            mirror.copied(10 + sequence, opened)
            mirror.check_rows(opened)
            mirror.query([opened])


def test_a_named_fork_writes_less_than_an_extent(mirror: Mirror) -> None:
    first = grown(mirror, "a", 128 * 4 + 40)
    before = written(mirror)
    mirror.store.fork_named(first, "b")
    group = 2 * 2 * mirror.layout.extent_nbytes  # of both cards: layers x KV heads
    assert 0 < written(mirror) - before <= 2 * group


def test_a_fork_outlives_its_parent_and_space_comes_back(mirror: Mirror, tmp_path: Path) -> None:
    first = grown(mirror, "a", 300)
    free = [card.volume.used_nbytes for card in mirror.store._cards]
    mirror.store.fork_named(first, "b")
    mirror.store.free(first)
    mirror.store.delete("a")
    second = mirror.copied(first, mirror.store.open_sequence("b"))
    mirror.query([second])
    assert [card.volume.used_nbytes for card in mirror.store._cards] == free
    mirror.store.free(second)
    mirror.store.delete("b")
    assert [card.volume.used_nbytes for card in mirror.store._cards] == [0] * CARDS


def test_a_crop_into_a_shared_extent_leaves_the_other_alone(mirror: Mirror) -> None:
    first = grown(mirror, "a", 300)
    mirror.store.fork_named(first, "b")
    second = mirror.copied(first, mirror.store.open_sequence("b"))
    mirror.crop(second, 70)
    mirror.append([second], 100)
    mirror.query([second])
    mirror.query([first])


@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
def test_a_failed_fork_leaves_nothing(mirror: Mirror, calls: FaultySyscalls, call: str) -> None:
    first = grown(mirror, "a", 300)
    used = [card.volume.used_nbytes for card in mirror.store._cards]
    done = calls.calls[call]
    calls.faults = [Fails(call, first=done + 2, last=done + 2)]  # on the second card
    with pytest.raises(StorageError, match="EIO"):
        mirror.store.fork_named(first, "b")
    assert mirror.store.names() == ("a",)
    assert [card.volume.used_nbytes for card in mirror.store._cards] == used
    mirror.query([first])


@pytest.mark.parametrize("how", ["forked", "labelled"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_an_interrupted_copy_leaves_the_count_of_users_right(
    mirror: Mirror, how: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too few would give pages away that an index still names."""
    first = grown(mirror, "a", 300)
    mirror.store.label(first, keys(256))
    used = [card.volume.used_nbytes for card in mirror.store._cards]
    share, calls = card_index.share, 0

    def interrupted(*values: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        share(*values)

    make = {
        "forked": partial(mirror.store.fork_named, first, "b"),
        "labelled": partial(mirror.store.add_sequence, "b", keys=keys(256)),
    }[how]
    with monkeypatch.context() as patched:
        patched.setattr(card_index, "share", interrupted)
        with pytest.raises(KeyboardInterrupt):
            make()
    if "b" in mirror.store.names():
        mirror.store.delete("b")
    assert [card.volume.used_nbytes for card in mirror.store._cards] == used
    for card in mirror.store._cards:
        assert [card.volume.users(place) for place in card.volume.index.find("a").groups] == [1, 1, 1]
    mirror.crop(first, 200)
    mirror.append([first], 100)
    mirror.query([first])


def keys(tokens: int, salt: bytes = b"x") -> list[bytes]:
    return [salt + bytes([i]) for i in range(tokens // 128)]


@pytest.mark.parametrize("stored", [127, 128, 300, 512])
def test_a_labelled_prefix_is_found_and_shared(mirror: Mirror, stored: int) -> None:
    first = grown(mirror, "a", stored)
    mirror.store.label(first, keys(stored + 128))  # the last one is not full: it gets no key
    before = written(mirror)
    second = mirror.store.add_sequence("b", keys=keys(1024))
    shared = stored // 128 * 128
    assert mirror.store.length(second) == shared
    assert written(mirror) == before
    mirror.copied(first, second, shared)
    mirror.check_rows(second)
    mirror.append([second], 60)
    mirror.query([second])


def test_other_keys_share_nothing(mirror: Mirror) -> None:
    first = grown(mirror, "a", 300)
    mirror.store.label(first, keys(256))
    assert mirror.store.length(mirror.store.add_sequence("b", keys=keys(256, b"y"))) == 0
    assert mirror.store.length(mirror.store.add_sequence("c", keys=[b"x\1", b"x\0"])) == 0
    assert mirror.store.length(mirror.store.add_sequence("d", keys=[b"x\0", b"y\1"])) == 128


@pytest.mark.parametrize("fault", [StorageError("lost", path="x"), KeyboardInterrupt("lost")], ids=type)
@pytest.mark.parametrize("number", range(CARDS))
def test_a_shared_beginning_that_cannot_be_opened_leaves_nothing(
    mirror: Mirror, number: int, fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = mirror.store
    first = grown(mirror, "a", 300)
    store.label(first, keys(300))
    used = [card.volume.used_nbytes for card in store._cards]
    upload = CardStore.upload_crcs

    def failing(card: CardStore, *arguments: Any) -> None:
        if card is store._cards[number]:
            raise fault
        upload(card, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(CardStore, "upload_crcs", failing)
        with pytest.raises(type(fault), match="lost"):
            store.add_sequence("b", keys=keys(256))
    assert store.names() == ("a",)
    assert [card.volume.used_nbytes for card in store._cards] == used
    assert [len(card.sequences) for card in store._cards] == [1] * CARDS
    second = store.add_sequence("b", keys=keys(256))
    mirror.copied(first, second, 256)
    mirror.check_rows(second)


def test_two_sequences_on_the_same_pages_are_damage_unless_both_say_so(mirror: Mirror, tmp_path: Path) -> None:
    first = grown(mirror, "a", 300)
    mirror.store.fork_named(first, "b")
    die(mirror.store)
    with sqlite3.connect(tmp_path / "card0" / "index.sqlite") as db:
        db.execute("UPDATE extent_groups SET tag = x'00' WHERE sequence = 1 AND extent = 0")
    with pytest.raises(VolumeDamaged, match="two sequences claim the same pages"):
        again(tmp_path)


def test_what_cannot_be_forked_is_refused(mirror: Mirror) -> None:
    first = grown(mirror, "a", 40)
    with pytest.raises(UserError, match="a sequence named 'a' exists"):
        mirror.store.fork_named(first, "a")
    with pytest.raises(UserError, match="has no name"):
        mirror.store.fork_named(mirror.store.add_sequence(), "b")
    assert mirror.store.names() == ("a",)


@pytest.mark.parametrize("shared", ["forked", "labelled"])
def test_a_crop_of_the_first_owner_leaves_those_alone_that_share(mirror: Mirror, shared: str, tmp_path: Path) -> None:
    first = grown(mirror, "a", 300)
    if shared == "forked":
        mirror.store.fork_named(first, "b")
        second = mirror.copied(first, mirror.store.open_sequence("b"))
    else:
        mirror.store.label(first, keys(256))
        second = mirror.copied(first, mirror.store.add_sequence("b", keys=keys(256)), 256)
    mirror.crop(first, 70)
    mirror.append([first], 100)
    mirror.store.flush()
    for sequence in (first, second):
        mirror.check_rows(sequence)
        mirror.query([sequence])


def test_a_crop_into_a_shared_extent_that_the_card_fails_leaves_both(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = grown(mirror, "a", 300)
    mirror.store.fork_named(first, "b")

    def failing(*_: object) -> None:
        raise DriverError("the card failed")

    with monkeypatch.context() as patched:
        patched.setattr(CardStore, "replace", failing)
        with pytest.raises(DriverError, match="the card failed"):
            mirror.store.crop(first, 100)
    mirror.check_rows(first)
    die(mirror.store)
    with again(tmp_path) as store:
        assert [store.length(store.open_sequence(name)) for name in ("a", "b")] == [300, 300]
        assert [card.volume.users(place) for card in store._cards for place in card.volume.index.find("b").places] == (
            [2, 2, 1, 1] * CARDS  # two full extents, and of each one that is not full and a partial unit
        )


def test_an_extent_that_was_cropped_and_filled_again_is_not_found_under_its_old_key(mirror: Mirror) -> None:
    first = grown(mirror, "a", 300)
    mirror.store.label(first, keys(256))
    mirror.crop(first, 200)
    mirror.append([first], 100)  # the second extent is full again, with other rows
    mirror.store.flush()
    assert mirror.store.length(mirror.store.add_sequence("b", keys=keys(256))) == 128
