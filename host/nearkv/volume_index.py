# SPDX-License-Identifier: Apache-2.0
"""The index of one volume: which named sequence has which pages, in SQLite. Knows no page's content.

One row per sequence, per extent group and per spill; the checksums of a spill's pages are one blob. Sequences may share
extent groups: then the rows name the same place and have the same tag. Every method is one transaction that is on disk
when it returns (`index_connection`). docs/volume-format.md has the order of writes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from nearkv.index_connection import IndexConnection
from nearkv.volume_errors import VolumeDamaged
from nearkv.volume_records import Place, SequenceRecord, SpillRecord, TailRecord
from nearkv.volume_rows import record_of
from nearkv.volume_schema import SEALED, check_version, prepare, upgrade

# A time of use, or one behind all that are there where the clock was set back. A damaged one does not count.
_LATER = (
    "max(?, 1 + coalesce((SELECT max(used_ns) FROM sequences"
    " WHERE typeof(used_ns) = 'integer' AND used_ns < 0x4000000000000000), 0))"
)


class VolumeIndex:
    """Failures are StorageError; rows that cannot be what an index says are VolumeDamaged.

    Several threads may use it: one method runs at a time.
    """

    def __init__(
        self, path: Path, check: Callable[[VolumeIndex], None] | None = None, *, writable: bool = True
    ) -> None:
        """An older version is upgraded, and stays what it was if `check` of the upgraded rows raises. `upgraded_from`:
        its number, else None.

        Not `writable`: for reading beside the process that writes it; VolumeOutdated for an older version then.
        """
        self._path = path
        self._connection = IndexConnection(path, writable=writable)
        self._db = self._connection.db
        self.upgraded_from: int | None = None
        try:
            with self._connection.counted():
                prepare(self._db)
                if writable:
                    self.upgraded_from = upgrade(self._db, path, lambda: check(self) if check else None)
                else:
                    check_version(self._db, path)
        except BaseException:
            self._db.close()
            raise

    @property
    def write_nbytes(self) -> int | None:
        """Bytes written to the log, and to the file when the log is moved into it, from opening to closing; None where
        the system does not tell."""
        return self._connection.write_nbytes

    def names(self) -> list[str]:
        with self._connection.reading():
            names = [row[0] for row in self._db.execute("SELECT name FROM sequences ORDER BY name")]
        if not all(isinstance(name, str) for name in names):
            raise VolumeDamaged("a sequence's name is no text", path=str(self._path))
        return names

    def find(self, name: str) -> SequenceRecord | None:
        with self._connection.one_moment():
            row = self._db.execute("SELECT id FROM sequences WHERE name = ?", (name,)).fetchone()
            return self.load(row[0]) if row else None

    def load(self, sequence: int) -> SequenceRecord:
        """VolumeDamaged for rows that `record_of` refuses."""
        with self._connection.one_moment():
            row = self._db.execute(
                f"SELECT {SEALED}, used_ns, tail_ids, seal FROM sequences WHERE id = ?", (sequence,)
            ).fetchone()
            if row is None:
                raise KeyError(f"the index has no sequence {sequence}")
            where = "WHERE sequence = ? ORDER BY"
            groups = self._db.execute(
                f"SELECT extent, file, slot, tag, key FROM extent_groups {where} extent", (sequence,)
            ).fetchall()
            spills = self._db.execute(
                f"SELECT first, tokens, crcs, ids FROM spills {where} first", (sequence,)
            ).fetchall()
        return record_of(self._path, row, groups, spills)

    def create(self, name: str, heads: Sequence[int], used_ns: int = 0) -> int:
        with self._connection.transaction():
            values = (name, json.dumps(list(heads)), used_ns)
            row = self._db.execute(f"INSERT INTO sequences (name, heads, used_ns) VALUES (?, ?, {_LATER})", values)
            assert row.lastrowid is not None
            self._seal(row.lastrowid)
            return row.lastrowid

    def add_spill(
        self,
        sequence: int,
        first: int,
        tokens: int,
        crcs: bytes,
        groups: Sequence[tuple[int, Place]],
        ids: bytes | None = None,
    ) -> None:
        """Whole units that are on flash now, with the groups that are new. The partial unit is forgotten."""
        with self._connection.transaction():
            self._add_groups(sequence, [(e, p, secrets.token_bytes(8), None) for e, p in groups])
            self._add_spills(sequence, [SpillRecord(first, tokens, crcs, ids)])
            self._forget_tail(sequence)
            self._seal(sequence)

    def move_group(self, sequence: int, extent: int, place: Place, tag: bytes) -> None:
        """The group's pages are at `place` now, which it shares with those of the same tag. Nothing happens to a group
        that the index does not name."""
        with self._connection.transaction():
            self._db.execute(
                "UPDATE extent_groups SET file = ?, slot = ?, tag = ? WHERE sequence = ? AND extent = ?",
                (place.file, place.slot, tag, sequence, extent),
            )

    def insert(self, record: SequenceRecord) -> int:
        """A new sequence that has all this from the start; its number, which `record.id` does not tell."""
        with self._connection.transaction():
            row = self._db.execute(
                f"INSERT INTO sequences (name, heads, used_ns) VALUES (?, ?, {_LATER})",
                (record.name, json.dumps(list(record.heads)), record.used_ns),
            )
            assert row.lastrowid is not None
            self._fill(row.lastrowid, record)
            self._seal(row.lastrowid)
            return row.lastrowid

    def put(self, record: SequenceRecord) -> None:
        """The sequence has all this and nothing else: what `load` gave before, for instance."""
        with self._connection.transaction():
            for table in ("spills", "extent_groups"):
                self._db.execute(f"DELETE FROM {table} WHERE sequence = ?", (record.id,))
            self._db.execute("UPDATE sequences SET tail_file = NULL WHERE id = ?", (record.id,))
            self._forget_tail(record.id)
            self._fill(record.id, record)
            self._seal(record.id)

    def set_keys(self, sequence: int, keys: Sequence[tuple[int, bytes]]) -> None:
        """Which content whole extents have: (extent, key). A key of no group changes nothing."""
        with self._connection.transaction():
            rows = [(key, sequence, extent, key) for extent, key in keys]  # those that have it cost no write
            self._db.executemany(
                "UPDATE extent_groups SET key = ? WHERE sequence = ? AND extent = ? AND key IS NOT ?", rows
            )

    def with_key(self, extent: int, key: bytes) -> list[str]:
        """Names of the sequences whose extent has this content."""
        with self._connection.reading():
            query = (
                "SELECT s.name FROM extent_groups g JOIN sequences s ON s.id = g.sequence WHERE key = ? AND extent = ?"
            )
            return [row[0] for row in self._db.execute(query, (key, extent))]

    def touch(self, sequence: int, used_ns: int) -> None:
        """It was used now: after all others, wherever the clock was set meanwhile."""
        with self._connection.transaction():
            self._db.execute(f"UPDATE sequences SET used_ns = {_LATER} WHERE id = ?", (used_ns, sequence))

    def by_use(self) -> list[tuple[int, str]]:
        """(when it was last used, name) of all sequences."""
        with self._connection.reading():
            return [(row[0], row[1]) for row in self._db.execute("SELECT used_ns, name FROM sequences")]

    def set_tail(self, sequence: int, tail: TailRecord) -> None:
        """The partial unit that follows the whole ones, in place of the one before."""
        with self._connection.transaction():
            self._set_tail(sequence, tail)
            self._seal(sequence)

    def truncate(
        self, sequence: int, stored: int, spills: Sequence[SpillRecord], tail: TailRecord | None, groups: int, full: int
    ) -> None:
        """Only whole units [0, stored) remain, described by `spills`, then `tail`; only the first `groups` groups, of
        which `full` hold all their tokens: the others lose their key, which would stand for what is gone."""
        if (spills[-1].first + spills[-1].tokens if spills else 0) != stored:
            raise ValueError(f"the spills do not end at {stored}")
        with self._connection.transaction():
            self._db.execute("DELETE FROM spills WHERE sequence = ?", (sequence,))
            self._add_spills(sequence, spills)
            self._db.execute("DELETE FROM extent_groups WHERE sequence = ? AND extent >= ?", (sequence, groups))
            self._db.execute("UPDATE extent_groups SET key = NULL WHERE sequence = ? AND extent >= ?", (sequence, full))
            self._forget_tail(sequence)
            if tail:
                self._set_tail(sequence, tail)
            self._seal(sequence)

    def delete(self, sequence: int) -> None:
        with self._connection.transaction():
            for table in ("spills", "extent_groups"):
                self._db.execute(f"DELETE FROM {table} WHERE sequence = ?", (sequence,))
            self._db.execute("DELETE FROM sequences WHERE id = ?", (sequence,))

    def close(self) -> None:
        self._connection.close()

    def _fill(self, sequence: int, record: SequenceRecord) -> None:
        if not len(record.groups) == len(record.tags) == len(record.keys):
            raise ValueError(f"{len(record.groups)} groups, {len(record.tags)} tags and {len(record.keys)} keys")
        rows = zip(record.groups, record.tags, record.keys, strict=True)
        self._add_groups(sequence, [(extent, *row) for extent, row in enumerate(rows)])
        self._add_spills(sequence, record.spills)
        if record.tail:
            self._set_tail(sequence, record.tail)

    def _add_groups(self, sequence: int, groups: Sequence[tuple[int, Place, bytes, bytes | None]]) -> None:
        self._db.executemany(
            "INSERT INTO extent_groups (sequence, extent, file, slot, tag, key) VALUES (?, ?, ?, ?, ?, ?)",
            [(sequence, extent, place.file, place.slot, tag, key) for extent, place, tag, key in groups],
        )

    def _add_spills(self, sequence: int, spills: Sequence[SpillRecord]) -> None:
        self._db.executemany(
            "INSERT INTO spills (sequence, first, tokens, crcs, ids) VALUES (?, ?, ?, ?, ?)",
            [(sequence, s.first, s.tokens, s.crcs, s.ids) for s in spills],
        )

    def _forget_tail(self, sequence: int) -> None:
        """Its place stays: the next one goes to another part of it."""
        self._db.execute("UPDATE sequences SET tail_tokens = 0, tail_ids = NULL WHERE id = ?", (sequence,))

    def _seal(self, sequence: int) -> None:
        self._db.execute(f"UPDATE sequences SET seal = row_seal({SEALED}) WHERE id = ?", (sequence,))

    def _set_tail(self, sequence: int, tail: TailRecord) -> None:
        self._db.execute(
            "UPDATE sequences SET tail_file = ?, tail_slot = ?, tail_part = ?, tail_first = ?, tail_tokens = ?,"
            " tail_crcs = ?, tail_ids = ? WHERE id = ?",
            (tail.place.file, tail.place.slot, tail.part, tail.first, tail.tokens, tail.crcs, tail.ids, sequence),
        )
