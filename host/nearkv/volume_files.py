# SPDX-License-Identifier: Apache-2.0
"""Reads the small files of a volume, and opens new ones for their owner alone.

What is none of a volume's files, such as a pipe, is VolumeDamaged: waiting for it could hold the program for ever, and
reading a device fill its memory.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from nearkv_driver.bounded_file import FileRefused, read_file
from nearkv_driver.errors import StorageError

from nearkv.volume_errors import VolumeDamaged


def read_whole(path: Path, nbytes_max: int) -> bytes:
    """All bytes. FileNotFoundError where there is no file, VolumeDamaged for a larger one and for what is no regular
    file, StorageError where it cannot be read."""
    try:
        return read_file(path, nbytes_max)
    except FileRefused as error:
        # No exception is kept in a variable: its traceback would hold the caller's objects until the collector runs.
        if error.errno == errno.ENOENT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
        if error.errno:
            raise unreadable(path, error.errno) from error
        raise VolumeDamaged(error.reason, path=str(path)) from error


def check_regular(path: Path) -> None:
    """VolumeDamaged where there is something that is no regular file; nothing where there is nothing. Before a library
    opens it."""
    if path.exists() and not path.is_file():
        raise VolumeDamaged("is no regular file", path=str(path))


def private(path: str, flags: int) -> int:
    """For `opener` of open: a new file is its owner's alone from the first moment on."""
    return os.open(path, flags, 0o600)


def unreadable(path: Path, number: int) -> StorageError:
    """The error of a file that cannot be read, by errno."""
    return unusable("cannot be read", path, number)


def unusable(what: str, path: Path, number: int) -> StorageError:
    """The error of a file with which `what` has happened, by errno."""
    name = errno.errorcode.get(number, str(number))
    return StorageError(f"{what}: {name} ({os.strerror(number)})", path=str(path), errno_name=name)
