# SPDX-License-Identifier: Apache-2.0
"""The lock of a volume's folder: one process at a time writes it. Opens nothing else of the volume."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from nearkv_driver.errors import StorageError

from nearkv.volume_errors import VolumeBusy


def take_lock(path: Path) -> int:
    """The open, locked file; VolumeBusy names who has it. The lock goes when the file is closed or the process dies."""
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
            text = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise VolumeBusy(str(path.parent), int(text) if text.isdigit() else 0) from None
        except OSError as error:
            os.close(fd)
            raise StorageError(f"cannot be locked: {error.strerror}", path=str(path)) from error
        return fd


def _is_at(path: Path, fd: int) -> bool:
    """Whether the open file still has its name: a process whose volume came to nothing removes its lock file, and a
    lock of a file without a name keeps nobody out."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    return False
