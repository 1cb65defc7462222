# SPDX-License-Identifier: Apache-2.0
"""Reads a file that a person has named, whole and up to a limit: never a device, a pipe or a folder.

Says what is wrong without the file's name: whoever asks has an error of its own that carries it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

TEXT_NBYTES_MAX = 1 << 20  # of descriptions that people write: TOML, kernel.xml, link configurations
XCLBIN_NBYTES_MAX = 1 << 31  # of an xclbin, or of a bitstream for one; those of the largest cards have some 100 MB


class FileRefused(ValueError):
    """`reason`: why the file is not read, without its name. `errno`: the system's, 0 where it is not the system that
    refuses."""

    def __init__(self, reason: str, errno: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.errno = reason, errno


def read_file(path: str | Path, nbytes_max: int) -> bytes:
    """All bytes of a regular file. FileRefused where it cannot be read, is none, or has more than `nbytes_max`."""
    try:
        # Opening a device may do something already. What takes the file's place after this is looked at again.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FileRefused("is no regular file")
        # Without O_NONBLOCK a pipe would wait for a writer before it can be seen to be one.
        with open(path, "rb", opener=_without_waiting) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise FileRefused("is no regular file")
            if found.st_size > nbytes_max:
                raise FileRefused(f"has {found.st_size:,} bytes; at most {nbytes_max:,} are read")
            data = file.read(nbytes_max + 1)  # it may grow, and files of /proc tell no size
    except OSError as error:
        raise FileRefused(f"cannot be read: {error.strerror}", error.errno or 0) from error
    except ValueError as error:
        if isinstance(error, FileRefused):
            raise
        raise FileRefused(f"cannot be read: {error}") from error  # a NUL byte in the name
    if len(data) > nbytes_max:
        raise FileRefused(f"has more than {nbytes_max:,} bytes, which are the most that are read")
    return data


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
