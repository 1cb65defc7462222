# SPDX-License-Identifier: Apache-2.0
"""An index is its owner's alone, synced with each transaction, and its failures are typed."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nearkv.index_connection import IndexConnection
from nearkv.volume_errors import VolumeDamaged
from nearkv_driver.errors import StorageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.sqlite"


@pytest.fixture
def connection(path: Path) -> Iterator[IndexConnection]:
    opened = IndexConnection(path, writable=True)
    with opened.transaction():
        opened.db.execute("CREATE TABLE t (x)")
    yield opened
    opened.close()


def rows(connection: IndexConnection) -> list[int]:
    with connection.reading():
        return [row[0] for row in connection.db.execute("SELECT x FROM t ORDER BY x")]


def test_nobody_else_may_open_it_from_the_first_moment_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, seen = sqlite3.connect, []

    def noted(*values: Any, **more: Any) -> sqlite3.Connection:
        db = connect(*values, **more)
        seen.append({path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()})
        return db

    monkeypatch.setattr(sqlite3, "connect", noted)
    before = os.umask(0)
    try:
        connection = IndexConnection(tmp_path / "index.sqlite", writable=True)
        with connection.transaction():
            connection.db.execute("CREATE TABLE t (x)")
        assert seen == [{"index.sqlite": 0o600}]
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
        connection.close()
    finally:
        os.umask(before)


def test_an_index_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot open the index: No such file"):
        IndexConnection(tmp_path / "nowhere" / "index.sqlite", writable=True)


def test_an_index_locked_by_another_is_a_storage_error(connection: IndexConnection, path: Path) -> None:
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        connection.db.execute("PRAGMA busy_timeout=0")
        with pytest.raises(StorageError, match="locked"), connection.transaction():
            pass
        other.execute("ROLLBACK")


def test_every_commit_is_synced(connection: IndexConnection) -> None:
    assert connection.db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_transaction_is_whole_or_not_at_all(connection: IndexConnection) -> None:
    def broken_off() -> None:
        with connection.transaction():
            connection.db.execute("INSERT INTO t VALUES (1)")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert rows(connection) == []
    with connection.transaction():
        connection.db.execute("INSERT INTO t VALUES (3)")
    assert rows(connection) == [3]


def test_a_transaction_inside_another_is_refused_and_ends_both(connection: IndexConnection) -> None:
    def nested() -> None:
        with connection.transaction():
            connection.db.execute("INSERT INTO t VALUES (1)")
            with connection.transaction():
                connection.db.execute("INSERT INTO t VALUES (2)")

    with pytest.raises(StorageError, match="within a transaction"):
        nested()
    assert rows(connection) == []
    with connection.transaction():
        connection.db.execute("INSERT INTO t VALUES (3)")
    assert rows(connection) == [3]


def test_a_read_that_ends_its_transaction_is_told_as_what_it_is(connection: IndexConnection) -> None:
    def broken_off() -> None:
        with connection.one_moment():
            connection.db.execute("ROLLBACK")  # as SQLite itself where memory or disk fail
            raise sqlite3.DatabaseError("database disk image is malformed")

    with pytest.raises(VolumeDamaged, match="not an index: database disk image is malformed"):
        broken_off()
    assert rows(connection) == []
