# SPDX-License-Identifier: Apache-2.0
"""The index gives back what was entered, changes as a whole or not at all, and notices what contradicts itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nearkv.token_ids import pack
from nearkv.volume_errors import VolumeDamaged
from nearkv.volume_index import VolumeIndex
from nearkv.volume_records import Place, SpillRecord, TailRecord
from nearkv.volume_schema import SEALED, prepare

IDS = pack(range(32), 0, 32)
TAIL = TailRecord(Place(0, 9), 1, 64, 5, b"tail", pack(range(90, 95), 0, 5))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.sqlite"


@pytest.fixture
def index(path: Path) -> Iterator[VolumeIndex]:
    opened = VolumeIndex(path)
    yield opened
    opened.close()


def filled(index: VolumeIndex) -> int:
    number = index.create("a", (0, 2))
    index.add_spill(number, 0, 32, b"one", [(0, Place(0, 3))], IDS)
    index.add_spill(number, 32, 128, b"two", [(1, Place(1, 0))])
    return number


def test_what_was_entered_is_there_after_reopening(index: VolumeIndex, path: Path) -> None:
    number = filled(index)
    index.set_tail(number, TAIL)
    index.close()
    again = VolumeIndex(path)
    record = again.find("a")
    again.close()
    assert record is not None
    assert (record.id, record.name, record.heads) == (number, "a", (0, 2))
    assert record.groups == (Place(0, 3), Place(1, 0))
    assert record.spills == (SpillRecord(0, 32, b"one", IDS), SpillRecord(32, 128, b"two"))
    assert record.tail == TAIL
    assert record.ids == [*range(32), *[None] * 128, *range(90, 95)]
    assert (record.stored, record.tokens) == (160, 165)


def test_a_reader_sees_all_rows_of_one_moment(index: VolumeIndex, path: Path) -> None:
    """Beside a process that writes: a partial unit from before a spill and the spill make rows that never were."""
    number = index.create("a", (0,))
    index.add_spill(number, 0, 64, b"one", [(0, Place(0, 3))])
    index.set_tail(number, TAIL)
    reader = VolumeIndex(path, writable=False)

    def meanwhile(statement: str) -> None:
        if "FROM spills" in statement:
            reader._db.set_trace_callback(None)
            index.add_spill(number, 64, 32, b"two", [])

    reader._db.set_trace_callback(meanwhile)
    record = reader.find("a")
    assert record is not None
    assert (record.stored, record.tokens) == (64, 69)
    record = reader.find("a")
    assert record is not None
    assert (record.stored, record.tokens) == (96, 96)
    reader.close()


def test_an_empty_sequence_and_an_unknown_name(index: VolumeIndex) -> None:
    number = index.create("a", (1,))
    record = index.load(number)
    assert (record.stored, record.tokens, record.tail, record.groups) == (0, 0, None, ())
    assert index.find("b") is None
    assert index.names() == ["a"]
    with pytest.raises(KeyError):
        index.load(number + 1)


def test_a_spill_forgets_the_partial_unit_but_not_its_place(index: VolumeIndex) -> None:
    number = filled(index)
    index.set_tail(number, TAIL)
    index.add_spill(number, 160, 32, b"three", [])
    record = index.load(number)
    assert (record.tokens, len(record.ids)) == (192, 192)
    assert record.tail is not None
    assert record.tail.place == TAIL.place


def test_truncation_replaces_everything_at_once(index: VolumeIndex) -> None:
    number = filled(index)
    index.truncate(number, 64, [SpillRecord(0, 32, b"one"), SpillRecord(32, 32, b"tw")], TAIL, 1, 0)
    record = index.load(number)
    assert (record.stored, record.tokens, record.groups) == (64, 69, (Place(0, 3),))
    with pytest.raises(ValueError, match="do not end at 96"):
        index.truncate(number, 96, record.spills, None, 1, 0)
    index.truncate(number, 0, [], None, 0, 0)
    assert index.load(number).tokens == 0


def test_a_failed_change_leaves_no_half(index: VolumeIndex) -> None:
    number = filled(index)
    with pytest.raises(VolumeDamaged, match="contradicts itself"):
        index.add_spill(number, 32, 32, b"again", [(2, Place(0, 7))])
    record = index.load(number)
    assert (record.stored, len(record.groups)) == (160, 2)
    with pytest.raises(VolumeDamaged, match="contradicts itself"):
        index.create("a", (1,))


def test_deletion_removes_every_row(index: VolumeIndex, path: Path) -> None:
    index.delete(filled(index))
    assert index.names() == []
    with sqlite3.connect(path) as db:
        assert [db.execute(f"SELECT COUNT(*) FROM {t}").fetchone()[0] for t in ("spills", "extent_groups")] == [0, 0]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("DELETE FROM spills WHERE first = 0", "lacks tokens from 0"),
        ("DELETE FROM extent_groups WHERE extent = 0", "group"),
    ],
)
def test_gaps_are_noticed(index: VolumeIndex, path: Path, change: str, text: str) -> None:
    number = filled(index)
    with sqlite3.connect(path) as db:
        db.execute(change)
    with pytest.raises(VolumeDamaged, match=text):
        index.load(number)


def reseal(db: sqlite3.Connection) -> None:
    """As whoever changes a row on purpose does; what is in it is then to be judged by itself."""
    prepare(db)
    db.execute(f"UPDATE sequences SET seal = row_seal({SEALED})")


@pytest.mark.parametrize(
    "change", ["id = 3", "name = 'b'", "heads = '[0]'", "tail_tokens = tail_tokens + 1", "tail_part = 0", "seal = 0"]
)
def test_a_row_that_is_not_what_was_written_is_noticed(index: VolumeIndex, path: Path, change: str) -> None:
    number = filled(index)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA foreign_keys=OFF")
        db.execute(f"UPDATE sequences SET {change}")
    with pytest.raises(VolumeDamaged, match="differs from its checksum"):
        index.load(3 if change == "id = 3" else number)


@pytest.mark.parametrize("heads", ["[0, 1", "7", '["0"]'])
def test_heads_that_are_no_list_are_noticed(index: VolumeIndex, path: Path, heads: str) -> None:
    number = filled(index)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE sequences SET heads = ?", (heads,))
        reseal(db)
    with pytest.raises(VolumeDamaged, match="has KV heads"):
        index.load(number)


@pytest.mark.parametrize(
    "change",
    [
        "sequences SET heads = 'null'",
        "sequences SET heads = '[2, 0]'",
        "sequences SET heads = '[0, \"a\"]'",
        "sequences SET heads = '{'",
        "sequences SET heads = 5",
        "sequences SET tail_file = 'x'",
        "sequences SET tail_part = -1",
        "sequences SET tail_crcs = 1.5",
        "sequences SET tail_tokens = 'many'",
        "extent_groups SET file = -1",
        "extent_groups SET slot = 'x'",
        "extent_groups SET slot = 1.5",
        "spills SET tokens = 'x'",
        "spills SET crcs = 7",
        "spills SET ids = 7",
        "spills SET ids = x'00000000' WHERE first = 0",
        "sequences SET tail_ids = x'00'",
    ],
)
def test_values_of_other_types_are_noticed(index: VolumeIndex, path: Path, change: str) -> None:
    number = filled(index)
    index.set_tail(number, TAIL)
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE {change}")
        reseal(db)
    with pytest.raises(VolumeDamaged, match="sequence 'a' has"):
        index.load(number)


def test_a_name_that_is_no_text_is_noticed(index: VolumeIndex, path: Path) -> None:
    filled(index)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE sequences SET name = x'00ff'")
    with pytest.raises(VolumeDamaged, match="no text"):
        index.names()


def test_a_schema_that_is_no_text_is_damage(index: VolumeIndex, path: Path) -> None:
    filled(index)
    index.close()
    data = path.read_bytes()
    at = data.index(b"CREATE TABLE extent_groups") + len(b"CREATE TABLE ext")
    path.write_bytes(data[:at] + b"\xa0" + data[at + 1 :])
    with pytest.raises(VolumeDamaged, match="not an index"):
        VolumeIndex(path).names()


COLUMNS = [
    *("sequences." + c for c in ("heads", "tail_file", "tail_slot", "tail_part", "tail_first", "tail_tokens")),
    "sequences.tail_crcs",
    *("extent_groups." + c for c in ("extent", "file", "slot", "tag", "key")),
    *("spills." + c for c in ("first", "tokens", "crcs", "ids")),
    "sequences.tail_ids",
]


@settings(max_examples=60)
@given(
    st.sampled_from(COLUMNS),
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.binary(max_size=9) | st.text('[]0,"', max_size=9),
)
def test_a_row_of_any_values_is_loaded_or_refused(
    tmp_path_factory: pytest.TempPathFactory, column: str, value: object
) -> None:
    path = tmp_path_factory.mktemp("any") / "index.sqlite"
    index = VolumeIndex(path)
    number = filled(index)
    index.set_tail(number, TAIL)
    table, _, name = column.partition(".")
    with sqlite3.connect(path) as db:
        try:
            db.execute(f"UPDATE {table} SET {name} = ?", (value,))
        except sqlite3.Error:
            value = None  # the table itself refuses it
        reseal(db)
    with suppress(VolumeDamaged):
        record = index.load(number)
        assert record.tokens >= 0
        assert all(place.file >= 0 and place.slot >= 0 for place in record.places)
    index.close()
