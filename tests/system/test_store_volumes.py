# SPDX-License-Identifier: Apache-2.0
"""Named sequences outlive the store: what was flushed is there again, bit for bit, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.volume_errors import VolumeBusy, VolumeDamaged, VolumeMismatch
from nearkv_driver.errors import JobError, StorageError

from tests.support.stores import Mirror, die, layout, urls


def reopened(mirror: Mirror, sequence: int, name: str, cards: list[str]) -> KVStore:
    """A new store on the same volumes; the mirror speaks to it and knows the sequence by its new number."""
    store = KVStore.open(mirror.layout, cards)
    mirror.store = store
    opened = store.open_sequence(name)
    mirror.moved(sequence, opened, store.length(opened))
    return store


def saved(folder: Path, tokens: int, count: int = 2, **changes: object) -> tuple[Mirror, list[str]]:
    """Volumes that hold sequence 0, named "a", with `tokens` tokens."""
    cards = urls(count, folder)
    with KVStore.open(layout(**changes), cards) as store:
        mirror = Mirror(store)
        mirror.append([mirror.add("a")], tokens)
        store.flush()
    return mirror, cards


def data_file(folder: Path, card: int = 0) -> Path:
    return folder / f"card{card}" / "data-000000.pages"


def test_a_partial_unit_survives_and_grows(tmp_path: Path) -> None:
    cards = urls(1, tmp_path)
    with KVStore.open(layout(head_size=128), cards) as store:
        mirror = Mirror(store)
        sequence = mirror.add("chat")
        for _ in range(3):
            mirror.append([sequence], 7)
            store.flush()
    with reopened(mirror, sequence, "chat", cards) as store:
        assert store.length(0) == 21
        mirror.check_rows(0)
        record = store._cards[0].volume.index.find("chat")
        assert record is not None
        assert record.tail is not None
        assert (record.stored, record.tail.tokens) == (16, 5)
        mirror.query([0])
        mirror.crop(0, 20)
        mirror.step([0])
    with reopened(mirror, 0, "chat", cards) as store:
        assert store.length(0) == 21
        mirror.check_rows(0)
        mirror.query([0])


def test_a_prompt_shorter_than_a_unit_is_found_again(tmp_path: Path) -> None:
    mirror, cards = saved(tmp_path, 5)
    with reopened(mirror, 0, "a", cards) as store:
        assert store.info(0).tokens == 5
        mirror.check_rows(0)
        mirror.step([0])


@pytest.mark.parametrize("tokens", [0, 1, 31, 32, 33, 128, 129, 300])
def test_every_length_is_there_again_and_goes_on(tmp_path: Path, tokens: int) -> None:
    mirror, cards = saved(tmp_path, tokens)
    with reopened(mirror, 0, "a", cards) as store:
        assert store.length(0) == tokens
        assert store.info(0).reason == ""
        mirror.check_rows(0)
        mirror.query([0])
        for _ in range(3):
            mirror.step([0], 13)
        mirror.check_rows(0)


def test_reopening_gives_the_same_bits(tmp_path: Path) -> None:
    cards = urls(2, tmp_path)
    with KVStore.open(layout(), cards) as store:
        mirror = Mirror(store)
        sequence = mirror.add("a")
        mirror.append([sequence], 150)
        mirror.random = np.random.default_rng(3)
        before = mirror.query([sequence], 3)
    with reopened(mirror, sequence, "a", cards) as store:
        mirror.random = np.random.default_rng(3)
        after = mirror.query([0], 3)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_death_of_the_process_keeps_what_was_flushed(tmp_path: Path) -> None:
    """A child flushes 40 tokens, goes on to 61, and is killed; the parent finds 40 or the whole units behind them."""
    cards = urls(2, tmp_path)
    child = """
import os, sys
from nearkv.kvstore import KVStore
from tests.support.stores import Mirror, layout
store = KVStore.open(layout(), sys.argv[1:])
mirror = Mirror(store)
sequence = mirror.add("a")
mirror.append([sequence], 40)
store.flush()
mirror.append([sequence], 21)
os._exit(9)
"""
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), *sys.path])
    done = subprocess.run([sys.executable, "-c", child, *cards], env={**os.environ, "PYTHONPATH": path}, timeout=60)
    assert done.returncode == 9
    with KVStore.open(layout(), urls(2)) as twin:
        mirror = Mirror(twin)
        sequence = mirror.add()
        mirror.append([sequence], 40)
        mirror.append([sequence], 21)
    with reopened(mirror, sequence, "a", cards) as store:
        assert store.length(0) == 40
        mirror.check_rows(0)
        mirror.step([0])


def test_unflushed_whole_units_are_there_after_the_step_that_spilled_them(tmp_path: Path) -> None:
    cards = urls(2, tmp_path)
    store = KVStore.open(layout(), cards)
    mirror = Mirror(store)
    sequence = mirror.add("a")
    mirror.append([sequence], 70)
    die(store)  # as the end of the process would, without a flush
    with reopened(mirror, sequence, "a", cards) as store:
        assert store.length(0) == 64
        mirror.check_rows(0)


def test_sequences_without_a_name_leave_no_trace(tmp_path: Path) -> None:
    cards = urls(1, tmp_path)
    for _ in range(3):
        with KVStore.open(layout(), cards) as store:
            mirror = Mirror(store)
            mirror.append([mirror.add()], 500)
            size = data_file(tmp_path).stat().st_size
        assert data_file(tmp_path).stat().st_size == size
    with KVStore.open(layout(), cards) as store:
        assert store.names() == ()
        assert store._cards[0].volume.used_nbytes == 0


def test_space_of_freed_and_deleted_sequences_is_used_again(tmp_path: Path) -> None:
    cards = urls(1, tmp_path)
    with KVStore.open(layout(), cards) as store:
        mirror, volume = Mirror(store), store._cards[0].volume
        mirror.append([mirror.add()], 300)
        used = volume.used_nbytes
        store.free(0)
        assert volume.used_nbytes == 0
        mirror.append([mirror.add("kept")], 300)
        store.free(1)
        assert volume.used_nbytes >= used
        assert store.names() == ("kept",)
        with pytest.raises(KeyError, match="other"):
            store.delete("other")
        store.delete("kept")
        assert (volume.used_nbytes, store.names()) == (0, ())
    assert data_file(tmp_path).stat().st_size <= 2 * used


def test_a_freed_named_sequence_opens_again_in_the_same_store(tmp_path: Path) -> None:
    with KVStore.open(layout(), urls(2, tmp_path)) as store:
        mirror = Mirror(store)
        first = mirror.add("a")
        mirror.append([first], 133)
        with pytest.raises(UserError, match="open already, as 0"):
            store.open_sequence("a")
        with pytest.raises(UserError, match="free it first"):
            store.delete("a")
        with pytest.raises(UserError, match="'a' exists"):
            store.add_sequence("a")
        store.free(first)
        opened = store.open_sequence("a")
        mirror.moved(first, opened, 133)
        mirror.check_rows(opened)
        mirror.step([opened])
        with pytest.raises(KeyError, match="'b'"):
            store.open_sequence("b")


@pytest.mark.parametrize("length", [0, 1, 31, 32, 100, 128, 130, 131, 133])
def test_crop_of_a_saved_sequence_is_durable(tmp_path: Path, length: int) -> None:
    mirror, cards = saved(tmp_path, 133)
    store = reopened(mirror, 0, "a", cards)
    mirror.crop(0, length)
    mirror.query([0])
    die(store)  # without a flush
    with reopened(mirror, 0, "a", cards) as store:
        assert store.length(0) == length
        mirror.check_rows(0)
        mirror.append([0], 140)
        mirror.query([0])
    with reopened(mirror, 0, "a", cards) as store:
        assert store.length(0) == length + 140
        mirror.check_rows(0)


@pytest.mark.parametrize(
    ("changes", "what", "values"),
    [
        ({"model": "other"}, "model", ("'test'", "'other'")),
        ({"layers": 3}, "layers", ("2", "3")),
        ({"kv_heads": 4, "query_heads": 4}, "kv_heads", ("2", "4")),
        ({"head_size": 128}, "head_size", ("64", "128")),
    ],
)
def test_a_volume_made_for_something_else_is_refused_untouched(
    tmp_path: Path, changes: dict[str, object], what: str, values: tuple[str, str]
) -> None:
    _, cards = saved(tmp_path, 40)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pytest.raises(VolumeMismatch, match=what) as caught:
        KVStore.open(layout(**changes), cards)
    assert all(value in str(caught.value) for value in values)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_swapped_missing_and_foreign_cards_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    _, cards = saved(tmp_path / "x", 40)
    with pytest.raises(VolumeMismatch, match="card = 1"):
        KVStore.open(layout(), [cards[1], cards[0]])
    with pytest.raises(VolumeMismatch, match="cards = 2"):
        KVStore.open(layout(), cards[:1])
    (tmp_path / "y").mkdir()
    _, others = saved(tmp_path / "y", 40)
    with pytest.raises(VolumeMismatch, match="store"):
        KVStore.open(layout(), [cards[0], others[1]])
    with pytest.raises(UserError, match="two cards name the same volume"):
        KVStore.open(layout(), [cards[0], cards[0]])


def test_one_writer_per_volume(tmp_path: Path) -> None:
    cards = urls(1, tmp_path)
    with KVStore.open(layout(), cards):
        with pytest.raises(VolumeBusy, match=f"process {os.getpid()}") as caught:
            KVStore.open(layout(), cards)
        assert caught.value.owner == os.getpid()
    KVStore.open(layout(), cards).close()


def test_a_folder_without_parent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="parent folder"):
        KVStore.open(layout(), [f"sw_emu:0?kernel=model&ssd={tmp_path}/a/b"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["byte", "half", "zeroed", "flipped"])
def test_damage_at_the_end_drops_the_shortest_possible_end(tmp_path: Path, damage: str) -> None:
    mirror, cards = saved(tmp_path, 96, count=1)
    path = data_file(tmp_path)
    size = path.stat().st_size
    head, layer, kv = 1, 1, 1  # the last V page of the last head and layer: tokens 64 to 95
    last = ((layer * 2 + head) * 2 + kv) * 128 * 128 + 64 * 128
    with path.open("r+b") as file:
        if damage == "byte":
            file.truncate(last + 4095)
        elif damage == "half":
            file.truncate(size // 2)
        else:
            file.seek(last)
            page = bytearray(file.read(4096))
            page = bytearray(4096) if damage == "zeroed" else page
            page[100] ^= damage == "flipped"
            file.seek(last)
            file.write(page)
    with reopened(mirror, 0, "a", cards) as store:
        info = store.info(0)
        assert info.tokens == (0 if damage == "half" else 64)
        assert info.dropped_tokens == 96 - info.tokens
        assert ("too short" if damage in ("byte", "half") else "differs from its checksum") in info.reason
        mirror.check_rows(0)
        mirror.step([0])
        mirror.append([0], 50)
    with reopened(mirror, 0, "a", cards) as store:
        assert store.info(0).dropped_tokens == 0
        mirror.check_rows(0)
        mirror.query([0])


def test_a_flipped_bit_in_the_middle_is_found_by_the_kernel(tmp_path: Path) -> None:
    mirror, cards = saved(tmp_path, 200, count=1)
    with data_file(tmp_path).open("r+b") as file:
        file.seek(4096 + 17)
        byte = file.read(1)[0]
        file.seek(4096 + 17)
        file.write(bytes([byte ^ 4]))
    with reopened(mirror, 0, "a", cards) as store:
        with pytest.raises(JobError, match="crc_mismatch") as caught:
            mirror.query([0])
        assert caught.value.status["page"] == 1
        with pytest.raises(StorageError, match="layer 0, KV head 0, K, extent 0, page 1"):
            store.read(0, 0)


def test_a_damaged_partial_unit_is_dropped(tmp_path: Path) -> None:
    mirror, cards = saved(tmp_path, 40, count=1)
    with KVStore.open(mirror.layout, cards) as store:
        record = store._cards[0].volume.index.find("a")
        assert record is not None
        assert record.tail is not None
        place, slot_nbytes = record.tail.place, mirror.layout.slot_nbytes
    with data_file(tmp_path).open("r+b") as file:
        file.seek(place.slot * slot_nbytes)
        file.write(b"\0" * 4096)
    with reopened(mirror, 0, "a", cards) as store:
        info = store.info(0)
        assert (info.tokens, info.dropped_tokens) == (32, 8)
        assert "partial unit" in info.reason
        mirror.query([0])


def test_cards_written_to_different_tokens_agree_on_the_shorter(tmp_path: Path) -> None:
    mirror, cards = saved(tmp_path, 40)
    store = reopened(mirror, 0, "a", cards)
    kept = (tmp_path / "card1" / "index.sqlite").read_bytes()
    mirror.append([0], 60)
    store.close()
    (tmp_path / "card1" / "index.sqlite").write_bytes(kept)
    with reopened(mirror, 0, "a", cards) as store:
        info = store.info(0)
        assert (info.tokens, info.dropped_tokens) == (40, 60)
        assert "same token" in info.reason
        mirror.check_rows(0)
        mirror.step([0], 3)
    with reopened(mirror, 0, "a", cards):
        mirror.check_rows(0)


def test_a_missing_data_file_and_a_foreign_index_are_named(tmp_path: Path) -> None:
    _, cards = saved(tmp_path, 40, count=1)
    data_file(tmp_path).rename(tmp_path / "elsewhere")
    with pytest.raises(VolumeDamaged, match=r"data-000000\.pages: .*missing"):
        KVStore.open(layout(), cards)
    (tmp_path / "elsewhere").rename(data_file(tmp_path))
    (tmp_path / "card0" / "index.sqlite").write_bytes(b"no index at all" * 100)
    with pytest.raises(VolumeDamaged, match=r"index\.sqlite"):
        KVStore.open(layout(), cards)
    (tmp_path / "card0" / "volume.json").write_text("{")
    with pytest.raises(VolumeDamaged, match=r"volume\.json"):
        KVStore.open(layout(), cards)


@pytest.mark.parametrize(("name", "error"), [("", UserError), ("\udcff", UserError), (b"x", TypeError), (5, TypeError)])
def test_a_name_that_is_no_text_is_refused_and_leaves_the_volume_as_it_was(
    tmp_path: Path, name: Any, error: type[Exception]
) -> None:
    with KVStore.open(layout(), urls(1, tmp_path)) as store:
        store.add_sequence("good")
        with pytest.raises(error, match="name"):
            store.add_sequence(name)
        assert store.names() == ("good",)
    with KVStore.open(layout(), urls(1, tmp_path)) as store:
        assert store.length(store.open_sequence("good")) == 0
