# SPDX-License-Identifier: Apache-2.0
"""Every flipped bit of a page that counts is found and named; nothing else is; the volume may be in use meanwhile."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest
from nearkv.kvstore import KVStore
from nearkv.scrub import Scrubber
from nearkv.volume_errors import VolumeMismatch
from nearkv.volume_schema import VERSION
from nearkv_driver.errors import StorageError
from nearkv_driver.regmap import PAGE_BYTES

from tests.support.stores import Mirror, layout, urls

TOKENS = 300  # two full extents, one unit more, a partial unit of 12


@pytest.fixture(params=[64, 80, 128], ids=lambda d: f"d{d}")
def head_size(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def folder(tmp_path: Path, head_size: int) -> Path:
    with KVStore.open(layout(head_size=head_size), urls(2, tmp_path, kernel="model")) as store:
        mirror = Mirror(store)
        mirror.append([mirror.add("a")], TOKENS)
        store.flush()
        store.fork_named(0, "b")
    return tmp_path


def scrub(folder: Path, name: str = "a") -> tuple[str, ...]:
    found: list[str] = []
    for card in range(2):
        with Scrubber(folder / f"card{card}") as scrubber:
            read: list[int] = []
            result = scrubber.scrub(name, read.append)
            assert sum(read) == result.nbytes == scrubber.nbytes(name)
            found += map(str, result.bad)
    return tuple(found)


def flip(folder: Path, offset: int, bit: int = 0) -> None:
    with (folder / "card1" / "data-000000.pages").open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


def test_a_good_volume_is_good_while_it_is_open_and_after(folder: Path, head_size: int) -> None:
    assert scrub(folder) == ()
    with KVStore.open(layout(head_size=head_size), urls(2, folder, kernel="model")) as store:
        mirror = Mirror(store)
        mirror.forget(store.open_sequence("b"))
        store.crop(0, 200)
        assert scrub(folder) == scrub(folder, "b") == ()


def test_a_flipped_bit_in_any_page_that_counts_is_named(folder: Path, head_size: int) -> None:
    size = (folder / "card1" / "data-000000.pages").stat().st_size
    shape = layout(head_size=head_size)
    counting = 0
    chooser = random.Random(1)
    for page in chooser.sample(range(size // PAGE_BYTES), 60):
        offset, bit = page * PAGE_BYTES + chooser.randrange(PAGE_BYTES), chooser.randrange(8)
        flip(folder, offset, bit)
        bad = (*scrub(folder), *scrub(folder, "b"))
        counting += bool(bad)
        for text in bad:
            assert "card1" in text
            assert "differs from its checksum" in text
            assert "KV head 1" in text
        flip(folder, offset, bit)
    # Pages behind the last unit, and other parts of the partial unit's run, hold nothing.
    pages = 2 * shape.layers * -(-TOKENS // shape.unit_tokens) * shape.unit_pages
    assert counting > 30 * pages / (size // PAGE_BYTES)
    assert scrub(folder) == ()


def test_the_page_is_named_by_its_first_token(folder: Path, head_size: int) -> None:
    shape = layout(head_size=head_size)
    with KVStore.open(shape, urls(2, folder, kernel="model")) as store:
        record = store._cards[1].volume.index.find("a")
        assert record is not None
        place = record.groups[1]
    offset = place.slot * shape.slot_nbytes + shape.extent_nbytes + shape.extent_nbytes // 2 + 3 * PAGE_BYTES
    flip(folder, offset)
    (bad,) = scrub(folder)
    token = 128 + 3 * PAGE_BYTES // shape.row_nbytes
    assert f"layer 1, KV head 1, V, page of token {token}:" in bad
    assert scrub(folder, "b") == (bad,)  # they share it


def test_a_file_that_is_cut_off_is_told(folder: Path) -> None:
    with (folder / "card1" / "data-000000.pages").open("r+b") as file:
        file.truncate(5 * PAGE_BYTES)
    assert any("early end" in text for text in scrub(folder))


def test_what_is_no_volume_or_of_another_version(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="holds no volume"):
        Scrubber(tmp_path)
    with Scrubber(folder / "card0") as scrubber, pytest.raises(KeyError, match="'c'"):
        scrubber.scrub("c")
    for version, advice in (
        (1, "nearkv generate with its cards upgrades it"),
        (VERSION + 1, "a later version of nearkv"),
    ):
        with sqlite3.connect(folder / "card0" / "index.sqlite") as db:
            db.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(VolumeMismatch, match=f"index version = {version}, this store has {VERSION}; .*{advice}"):
            Scrubber(folder / "card0")


def test_pages_that_are_cut_off_and_written_anew_meanwhile_are_not_bad(
    folder: Path, head_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KVStore.open(layout(head_size=head_size), urls(2, folder, kernel="model")) as store:
        mirror = Mirror(store)
        first = mirror.add("c")
        mirror.append([first], TOKENS)
        store.flush()
        with Scrubber(folder / "card1") as scrubber, monkeypatch.context() as patch:
            scrubber._requests.depth = 1  # nothing is read before what follows
            inner = Scrubber._check

            def late(*args: object) -> memoryview:
                patch.setattr(Scrubber, "_check", inner)
                mirror.crop(first, 140)
                for _ in range(5):  # so often that the partial unit comes round to where it was
                    mirror.append([first], 100)
                    store.flush()
                return inner(*args)  # type: ignore[arg-type]

            patch.setattr(Scrubber, "_check", late)
            assert scrubber.scrub("c").bad == ()
