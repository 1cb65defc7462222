# SPDX-License-Identifier: Apache-2.0
"""The calls through which a page file reaches the operating system, as a seam: what fails in tests fails here."""

from __future__ import annotations

import fcntl
import os
from typing import Protocol


class Syscalls(Protocol):
    """Semantics of the `os` functions of the same names; OSError as they raise it."""

    def open(self, path: str, flags: int) -> int: ...

    def close(self, fd: int) -> None: ...

    def size(self, fd: int) -> int: ...

    def preadv(self, fd: int, buffer: memoryview, offset: int) -> int: ...

    def pwritev(self, fd: int, buffer: memoryview, offset: int) -> int: ...

    def fdatasync(self, fd: int) -> None: ...

    def allocate(self, fd: int, offset: int, nbytes: int) -> None: ...

    def truncate(self, fd: int, nbytes: int) -> None: ...

    def clear_direct(self, fd: int) -> None: ...

    def free_nbytes(self, fd: int) -> int: ...


class SystemCalls:
    """The operating system itself."""

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, 0o600)  # what was said in a conversation is its owner's

    def close(self, fd: int) -> None:
        os.close(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def preadv(self, fd: int, buffer: memoryview, offset: int) -> int:
        return os.preadv(fd, [buffer], offset)

    def pwritev(self, fd: int, buffer: memoryview, offset: int) -> int:
        return os.pwritev(fd, [buffer], offset)

    def fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)

    def allocate(self, fd: int, offset: int, nbytes: int) -> None:
        os.posix_fallocate(fd, offset, nbytes)

    def truncate(self, fd: int, nbytes: int) -> None:
        os.ftruncate(fd, nbytes)

    def clear_direct(self, fd: int) -> None:
        """Turns O_DIRECT off for an open file."""
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_DIRECT)

    def free_nbytes(self, fd: int) -> int:
        """Bytes that an unprivileged process may still write to the file system."""
        found = os.fstatvfs(fd)
        return found.f_bavail * found.f_frsize
