# SPDX-License-Identifier: Apache-2.0
"""The lock of a volume's folder: one process at a time writes it. Opens nothing else of the volume.

Who writes holds it exclusively. Who only reads may hold it shared for the moment in which it looks whether somebody
writes (`index_reader`), and is not taken for one that does.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from nearkv_driver.errors import StorageError

from nearkv.volume_errors import VolumeBusy

# For so long those that only look are waited for: they need microseconds, unless they are stopped meanwhile.
_PAUSE_S, _PAUSES = 0.001, 1000


def take_lock(path: Path) -> int:
    """The open, locked file; VolumeBusy names who has it. The lock goes when the file is closed or the process dies."""
    left = _PAUSES
    while True:
        try:
            # Never through a link: the file is emptied.
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"cannot be opened: {error.strerror}", path=str(path)) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_at(path, fd):
                os.close(fd)
                continue
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            owner = _owner(fd) if _is_written(fd) else None
            os.close(fd)
            if owner is None and left:
                left -= 1
                time.sleep(_PAUSE_S)
                continue
            raise VolumeBusy(str(path.parent), owner or 0) from None
        except OSError as error:
            os.close(fd)
            raise StorageError(f"cannot be locked: {error.strerror}", path=str(path)) from error
        return fd


def release_lock(fd: int) -> None:
    """The lock is free, also where a process that was forked meanwhile has the file open too. Not for that process."""
    with suppress(OSError):  # a file system that knows no locks any more; closing ends it as well
        fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def _is_written(fd: int) -> bool:
    """Whether the lock is held exclusively, or that cannot be seen: with others that only look one can have it too."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def _owner(fd: int) -> int:
    """The process that has, or last had, the lock; 0 where the file does not tell."""
    text = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else 0


def _is_at(path: Path, fd: int) -> bool:
    """Whether the open file still has its name: a process whose volume came to nothing removes its lock file, and a
    lock of a file without a name keeps nobody out."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    return False
