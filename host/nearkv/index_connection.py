# SPDX-License-Identifier: Apache-2.0
"""The SQLite connection of one index: opening, transactions, typed errors, and what is written counted. Knows no table.

What a transaction changed is on disk when it ends (WAL, synchronous=FULL). Failures are StorageError; what cannot be
read as a database is VolumeDamaged.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearkv_driver.errors import StorageError

from nearkv import index_reader
from nearkv.thread_io import written_nbytes
from nearkv.volume_errors import VolumeDamaged
from nearkv.volume_files import check_regular

_SHARED_NBYTES = 32 << 10


class IndexConnection:
    """Several threads may use it: what stands in one of its contexts runs alone. Statements go to `db`."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        """Not `writable`: for reading beside the process that writes it."""
        check_regular(path)  # SQLite would wait for a pipe's other end
        self.path = path
        self._using = threading.RLock()
        # From opening to closing; None where the system does not tell.
        self.write_nbytes: int | None = 0
        try:
            if writable:
                _make_private(path)
                uri = f"{path.absolute().as_uri()}?mode=rw"
                self.db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
            else:
                self.db = index_reader.connect(path)
        except sqlite3.Error as error:
            raise StorageError(f"cannot open the index: {error}", path=str(path)) from error
        try:
            with self.counted():
                for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON") if writable else ():
                    self.db.execute(f"PRAGMA {pragma}")
        except BaseException:
            self.db.close()
            raise

    def close(self) -> None:
        with self._count():  # the last one who closes it moves the log into the file
            self.db.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Inside, nobody else uses the connection, and SQLite's errors become ours."""
        try:
            with self._using:
                yield
        except sqlite3.IntegrityError as error:
            raise VolumeDamaged(f"the index contradicts itself: {error}", path=str(self.path)) from error
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", 0)
            found = os.statvfs(self.path.parent)
            free = found.f_bavail * found.f_frsize
            # Without room for the file that its log is shared through, SQLite calls it an I/O error.
            if code == sqlite3.SQLITE_FULL or (code & 0xFF == sqlite3.SQLITE_IOERR and free < _SHARED_NBYTES):
                text = f"disk full: the index needs some pages of 4096 bytes, {free} free"
                raise StorageError(text, path=str(self.path), errno_name="ENOSPC") from error
            raise StorageError(f"the index cannot be used: {error}", path=str(self.path)) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # a name in the schema may be no text any more
            raise VolumeDamaged(f"not an index: {error}", path=str(self.path)) from error

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """As `reading`; and what is read inside is of one moment, whatever another process commits meanwhile."""
        with self.reading():
            if self.db.in_transaction:
                yield
                return
            self.db.execute("BEGIN")
            try:
                yield
            finally:
                if self.db.in_transaction:  # SQLite ends it itself after some failures, which are what is told
                    self.db.execute("COMMIT")

    @contextmanager
    def counted(self) -> Iterator[None]:
        """As `reading`; and what is written inside is counted."""
        with self.reading(), self._count():
            yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is changed inside or nothing of it. StorageError, and nothing of both, for one inside another."""
        with self.counted():
            try:
                self.db.execute("BEGIN IMMEDIATE")
                yield
                self.db.execute("COMMIT")
            except BaseException:
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                raise

    @contextmanager
    def _count(self) -> Iterator[None]:
        before = written_nbytes()
        try:
            yield
        finally:
            after = written_nbytes()
            known = self.write_nbytes is not None and before is not None and after is not None
            self.write_nbytes = self.write_nbytes + after - before if known else None  # type: ignore[operator]


def _make_private(path: Path) -> None:
    """The file exists, for its owner alone; the log beside it gets the same. SQLite would make one that others may
    open, and whoever has it open goes on reading when it is narrowed."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
    except OSError as error:
        raise StorageError(f"cannot open the index: {error.strerror}", path=str(path)) from error
