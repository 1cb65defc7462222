# SPDX-License-Identifier: Apache-2.0
"""The tables of a volume's index, and how those of older versions become them. Knows no row's meaning.

Format n of volumes (`volume_identity`) is version n here (docs/volume-format.md, Versions).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from nearkv_driver.checksum import crc32c

from nearkv.volume_errors import VolumeMismatch, VolumeNewer, VolumeOutdated
from nearkv.volume_identity import FORMAT

VERSION = FORMAT
# `_UPGRADES[n]` leads from version n to n + 1; version 0 is a file without tables.
_UPGRADES = (
    """
CREATE TABLE IF NOT EXISTS sequences (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    heads TEXT NOT NULL,
    tail_file INTEGER, tail_slot INTEGER, tail_part INTEGER,
    tail_first INTEGER NOT NULL DEFAULT 0, tail_tokens INTEGER NOT NULL DEFAULT 0, tail_crcs BLOB);
CREATE TABLE IF NOT EXISTS extent_groups (
    sequence INTEGER NOT NULL REFERENCES sequences(id), extent INTEGER NOT NULL,
    file INTEGER NOT NULL, slot INTEGER NOT NULL, PRIMARY KEY (sequence, extent)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spills (
    sequence INTEGER NOT NULL REFERENCES sequences(id), first INTEGER NOT NULL,
    tokens INTEGER NOT NULL, crcs BLOB NOT NULL, PRIMARY KEY (sequence, first)) WITHOUT ROWID;
""",
    """
ALTER TABLE extent_groups ADD COLUMN tag BLOB NOT NULL DEFAULT x'';
ALTER TABLE extent_groups ADD COLUMN key BLOB;
UPDATE extent_groups SET tag = randomblob(8);
CREATE INDEX groups_by_key ON extent_groups (key) WHERE key IS NOT NULL;
ALTER TABLE sequences ADD COLUMN used_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sequences ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
UPDATE sequences SET seal = row_seal(
    id, name, heads, tail_file, tail_slot, tail_part, tail_first, tail_tokens, tail_crcs);
""",
    """
ALTER TABLE spills ADD COLUMN ids BLOB;
ALTER TABLE sequences ADD COLUMN tail_ids BLOB;
""",
)


# What the seal of a sequence's row covers: everything that no checksum of a page would show to be wrong. A wrong token
# in `tail_ids` is not what the session's journal says, so rows are dropped that need not be.
SEALED = "id, name, heads, tail_file, tail_slot, tail_part, tail_first, tail_tokens, tail_crcs"


def seal(*values: object) -> int:
    """CRC-32C of a row's values, each with its type."""
    return crc32c(repr(values).encode("utf-8", "surrogateescape"))


def prepare(db: sqlite3.Connection) -> None:
    """`row_seal` may be used in statements."""
    db.create_function("row_seal", -1, seal, deterministic=True)


def check_version(db: sqlite3.Connection, path: Path) -> None:
    """VolumeOutdated for an index of an older version, VolumeNewer of a later one, VolumeMismatch for what is none."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if 0 <= found < VERSION:
        raise VolumeOutdated(str(path.parent), "index version", wanted=VERSION, found=found)
    _refuse_others(path, found)


def upgrade(db: sqlite3.Connection, path: Path, before_commit: Callable[[], None]) -> int | None:
    """Brings the index to VERSION; the version that it had, None for a new one and where nothing was to do.

    Whole or not at all: `before_commit` is called when the rows are as they will be, and what it raises leaves the
    index as it was. VolumeNewer for a later version, VolumeMismatch for what is none.
    """
    (found,) = db.execute("PRAGMA user_version").fetchone()
    _refuse_others(path, found)
    if found == 0 and db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'extent_groups'").fetchone():
        found = 1  # the first version did not number itself
    steps = "".join(_UPGRADES[found:])
    if not steps:
        before_commit()
        return None
    try:
        db.executescript(f"BEGIN IMMEDIATE; {steps} PRAGMA user_version = {VERSION};")
        before_commit()
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return found or None


def _refuse_others(path: Path, found: int) -> None:
    if not 0 <= found <= VERSION:
        kind = VolumeNewer if found > VERSION else VolumeMismatch
        raise kind(str(path.parent), "index version", wanted=VERSION, found=found)
