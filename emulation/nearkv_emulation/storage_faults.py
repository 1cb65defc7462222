# SPDX-License-Identifier: Apache-2.0
"""Faults of a drive, as a wrapper around the system calls of a page file: by call and count, never by chance."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nearkv_driver.pagestore import aligned_buffer
from nearkv_driver.syscalls import Syscalls


@dataclass(frozen=True)
class Fails:
    """The calls of this name from the `first`-th to the `last`-th (None = all later ones) raise an OSError."""

    call: str
    errno: int = errno.EIO
    first: int = 1
    last: int | None = 1


@dataclass(frozen=True)
class Short:
    """The `nth` preadv or pwritev moves at most `nbytes` bytes."""

    call: str
    nbytes: int
    nth: int = 1


@dataclass(frozen=True)
class Flip:
    """Every read that covers byte `offset` of the file finds bit `bit` of it turned."""

    offset: int
    bit: int = 0


StorageFault = Fails | Short | Flip


class FaultySyscalls:
    """System calls of one file that fail as `faults` say, which may be replaced at any time.

    `lose_unsynced` undoes what was written since the last sync that worked, as a power cut may. `calls` counts by name.
    """

    def __init__(self, inner: Syscalls, faults: Sequence[StorageFault] = ()) -> None:
        self._inner = inner
        self.faults = list(faults)
        self.calls: Counter[str] = Counter()
        self._before: list[tuple[int, int, bytes]] = []
        self._counting = threading.Lock()

    def open(self, path: str, flags: int) -> int:
        self._count("open")
        return self._inner.open(path, flags)

    def close(self, fd: int) -> None:
        self._inner.close(fd)

    def size(self, fd: int) -> int:
        return self._inner.size(fd)

    def preadv(self, fd: int, buffer: memoryview, offset: int) -> int:
        nbytes = self._count("preadv", buffer.nbytes)
        got = self._inner.preadv(fd, buffer[:nbytes], offset) if nbytes else 0
        for fault in self.faults:
            if isinstance(fault, Flip) and offset <= fault.offset < offset + got:
                buffer[fault.offset - offset] ^= 1 << fault.bit
        return got

    def pwritev(self, fd: int, buffer: memoryview, offset: int) -> int:
        nbytes = self._count("pwritev", buffer.nbytes)
        if not nbytes:
            return 0
        old = aligned_buffer(nbytes)
        self._inner.preadv(fd, old, offset)
        put = self._inner.pwritev(fd, buffer[:nbytes], offset)
        self._before.append((fd, offset, bytes(old[:put])))
        return put

    def fdatasync(self, fd: int) -> None:
        self._count("fdatasync")
        self._inner.fdatasync(fd)
        self._before.clear()

    def allocate(self, fd: int, offset: int, nbytes: int) -> None:
        self._count("allocate")
        self._inner.allocate(fd, offset, nbytes)

    def truncate(self, fd: int, nbytes: int) -> None:
        self._count("truncate")
        self._inner.truncate(fd, nbytes)

    def clear_direct(self, fd: int) -> None:
        self._count("clear_direct")
        self._inner.clear_direct(fd)

    def free_nbytes(self, fd: int) -> int:
        return self._inner.free_nbytes(fd)

    def lose_unsynced(self) -> None:
        """Puts back what was there before each write since the last sync, the latest first; zeros where the file was
        shorter. The file must be open."""
        for fd, offset, data in reversed(self._before):
            old = aligned_buffer(len(data))
            old[:] = data
            self._inner.pwritev(fd, old, offset)
        self._before.clear()

    def _count(self, call: str, nbytes: int = 0) -> int:
        """Raises when this call is to fail, else the bytes that it may move."""
        with self._counting:
            self.calls[call] += 1
            number = self.calls[call]
        for fault in self.faults:
            if isinstance(fault, Flip) or fault.call != call:
                continue
            if isinstance(fault, Short):
                nbytes = min(nbytes, fault.nbytes) if number == fault.nth else nbytes
            elif fault.first <= number and (fault.last is None or number <= fault.last):
                raise OSError(fault.errno, os.strerror(fault.errno))
        return nbytes
