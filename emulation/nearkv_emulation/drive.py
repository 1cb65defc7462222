# SPDX-License-Identifier: Apache-2.0
"""The drive of an emulated card: system calls of page files that take as long as the modelled drive would.

`drive=smartssd`, or figures of one's own: `drive=read:3G,write:1.6G` in bytes per second, K, M and G being powers of
1000, with `latency:80` in microseconds per request. A drive that is slower than the model stays as slow as it is:
`late` counts the requests for which that was so. Syncs, and everything but reads and writes, are not slowed.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Protocol

from nearkv_driver.registry import CardDrive, CardUrl
from nearkv_driver.syscalls import Syscalls

from nearkv_emulation.drive_model import SMARTSSD, Direction, Drive, TimeLine

_DRIVES = {"smartssd": SMARTSSD}
_UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}


class Clock(Protocol):
    """Seconds that never go back, and waiting for one of them."""

    def now(self) -> float: ...

    def wait_until(self, moment: float) -> None: ...


class SystemClock:
    """The machine's own clock; waiting sleeps."""

    def now(self) -> float:
        return time.monotonic()

    def wait_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            time.sleep(left)


class ThrottledSyscalls:
    """System calls of one drive's files. Requests of all threads share the drive's time."""

    def __init__(self, inner: Syscalls, drive: Drive, clock: Clock | None = None) -> None:
        self._inner = inner
        self._line = TimeLine(drive)
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._lock = threading.Lock()
        self.requests = self.late = 0

    def open(self, path: str, flags: int) -> int:
        return self._inner.open(path, flags)

    def close(self, fd: int) -> None:
        self._inner.close(fd)

    def size(self, fd: int) -> int:
        return self._inner.size(fd)

    def preadv(self, fd: int, buffer: memoryview, offset: int) -> int:
        ends = self._line.ends(self._clock.now(), buffer.nbytes, write=False)
        got = self._inner.preadv(fd, buffer, offset)
        self._wait(ends)
        return got

    def pwritev(self, fd: int, buffer: memoryview, offset: int) -> int:
        ends = self._line.ends(self._clock.now(), buffer.nbytes, write=True)
        put = self._inner.pwritev(fd, buffer, offset)
        self._wait(ends)
        return put

    def fdatasync(self, fd: int) -> None:
        self._inner.fdatasync(fd)

    def allocate(self, fd: int, offset: int, nbytes: int) -> None:
        self._inner.allocate(fd, offset, nbytes)

    def truncate(self, fd: int, nbytes: int) -> None:
        self._inner.truncate(fd, nbytes)

    def clear_direct(self, fd: int) -> None:
        self._inner.clear_direct(fd)

    def free_nbytes(self, fd: int) -> int:
        return self._inner.free_nbytes(fd)

    def _wait(self, ends: float) -> None:
        late = self._clock.now() > ends
        with self._lock:
            self.requests += 1
            self.late += late
        self._clock.wait_until(ends)


def open_drive(url: CardUrl, inner: Syscalls) -> CardDrive:
    """`inner`, as slow as the drive that the URL names; `inner` itself where it names none."""
    drive = drive_of(url)
    return CardDrive(inner) if drive is None else CardDrive(ThrottledSyscalls(inner, drive), drive.endurance_nbytes)


def drive_of(url: CardUrl) -> Drive | None:
    """ValueError for a drive that is neither known nor described."""
    text = url.option("drive", "")
    if not text:
        return None
    if text in _DRIVES:
        return _DRIVES[text]
    given: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(r"(read|write|latency):([0-9]+(?:\.[0-9]+)?)([KMG]?)", part)
        value = float(match[2]) * _UNITS[match[3]] if match else 0.0
        if match is None or match[1] in given or value <= 0:
            raise _bad(url, text)
        given[match[1]] = value
    if "read" not in given or "write" not in given:
        raise _bad(url, text)
    own_s = ((1, given.get("latency", 0.0) * 1e-6),)
    return Drive(Direction(given["read"], own_s), Direction(given["write"], own_s))


def _bad(url: CardUrl, text: str) -> ValueError:
    known = ", ".join(_DRIVES)
    return ValueError(
        f"card URL {url.text!r}: drive={text}; known are {known}, or figures such as read:3G,write:1.6G,latency:80 "
        "(bytes per second, microseconds)"
    )
