# SPDX-License-Identifier: Apache-2.0
"""Opens a volume's index to read it, also where SQLite can put no log beside it: the file system may not be written, or
is full. Writes nothing.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path


def connect(path: Path) -> sqlite3.Connection:
    """sqlite3.Error as SQLite raises it."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    db = _open(uri)
    try:
        db.execute("PRAGMA user_version")
    except sqlite3.OperationalError:
        db.close()
        if not _at_rest(path):
            raise
        # Read so, SQLite looks for no log. Should a process begin to write after all, this sees the old rows or torn
        # ones, whose checksums and those of their pages do not fit: an error, no wrong row.
        return _open(f"{uri}&immutable=1")
    except BaseException:
        db.close()
        raise
    return db


def _open(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


def _at_rest(path: Path) -> bool:
    """Whether no process has the volume open to write, and the file alone is the index. One that opens it meanwhile
    waits for the answer (`volume_lock`)."""
    log = path.with_name(path.name + "-wal")
    try:
        fd = os.open(path.with_name("lock"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return not log.exists() or not log.stat().st_size
        finally:
            os.close(fd)
    except OSError:
        return False
