# SPDX-License-Identifier: Apache-2.0
"""Every write of a run to its volumes, in order, and the states that a crash at any moment could leave.

What was written and not synced may be there or not, each write by itself, and the last one in part. A transaction of an
index is there once it has returned: that is SQLite's own promise (WAL, synchronous=FULL), not tested here.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from nearkv.index_connection import IndexConnection
from nearkv_driver.syscalls import SystemCalls

_SECTOR = 512


@dataclass(frozen=True)
class Write:
    path: str
    offset: int
    data: bytes


@dataclass(frozen=True)
class Resize:
    """To at least (`grow`) or exactly `nbytes`. Part of what a sync makes durable."""

    path: str
    nbytes: int
    grow: bool


@dataclass(frozen=True)
class Sync:
    path: str


@dataclass(frozen=True)
class Index:
    """A transaction has returned; `data` is the whole database after it."""

    path: str
    data: bytes


@dataclass(frozen=True)
class Told:
    """Something was promised to the user; `value` says what."""

    value: Any


Event = Write | Resize | Sync | Index | Told


class Recorder(SystemCalls):
    """System calls that do what they always do, and are written down."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._paths: dict[int, str] = {}

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        self._paths[fd] = path.removesuffix(".new")  # a file that is renamed when it is whole
        return fd

    def pwritev(self, fd: int, buffer: memoryview, offset: int) -> int:
        put = super().pwritev(fd, buffer, offset)
        self.events.append(Write(self._paths[fd], offset, bytes(buffer[:put])))
        return put

    def fdatasync(self, fd: int) -> None:
        super().fdatasync(fd)
        self.events.append(Sync(self._paths[fd]))

    def allocate(self, fd: int, offset: int, nbytes: int) -> None:
        super().allocate(fd, offset, nbytes)
        self.events.append(Resize(self._paths[fd], offset + nbytes, grow=True))

    def truncate(self, fd: int, nbytes: int) -> None:
        super().truncate(fd, nbytes)
        self.events.append(Resize(self._paths[fd], nbytes, grow=False))

    def tell(self, value: Any) -> None:
        self.events.append(Told(value))

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Also writes down what indexes commit."""
        inner = IndexConnection.transaction

        @contextmanager
        def transaction(connection: IndexConnection) -> Iterator[None]:
            with inner(connection):
                yield
            self.events.append(Index(str(connection.path), connection.db.serialize()))

        patch.setattr(IndexConnection, "transaction", transaction)


@dataclass(frozen=True)
class Crash:
    """After `events` events, with these of the writes that were not synced; `part` of the last one, in sectors."""

    events: int
    kept: tuple[int, ...]
    part: tuple[int, int] | None = None


def crashes(events: list[Event], chooser: random.Random, *, per_moment: int) -> Iterator[Crash]:
    """At most `per_moment` for each moment: nothing kept, all, one missing, one alone, torn, some at random."""
    for end in range(len(events) + 1):
        loose = _loose(events, end)
        choices: list[Crash] = [Crash(end, tuple(loose)), Crash(end, ())]
        singles = [Crash(end, (i,)) for i in loose] + [Crash(end, tuple(j for j in loose if j != i)) for i in loose]
        some = [Crash(end, tuple(i for i in loose if chooser.random() < 0.5)) for _ in range(3)]
        torn = []
        for i in loose:
            event = events[i]
            if isinstance(event, Write) and len(event.data) > 1:
                sectors = -(-len(event.data) // _SECTOR)
                cut = chooser.randrange(sectors + 1)
                kept = tuple(j for j in loose if j <= i)
                torn += [Crash(end, kept, (0, cut)), Crash(end, kept, (cut, sectors))]
        rest = singles + some + torn
        chooser.shuffle(rest)
        yield from itertools.islice(dict.fromkeys(choices + rest), per_moment)


def _loose(events: list[Event], end: int) -> list[int]:
    """Writes before `end` that no later sync of the same file before `end` covers."""
    synced = {event.path: i for i, event in enumerate(events[:end]) if isinstance(event, Sync)}
    return [
        i
        for i, event in enumerate(events[:end])
        if isinstance(event, Write | Resize) and i > synced.get(event.path, -1)
    ]


def restore(base: Path, events: list[Event], crash: Crash, folder: Path, was: Path) -> None:
    """Makes `folder` what the crash leaves of `was`, of which `base` is a copy from before the first event."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder)
    loose = set(_loose(events, crash.events))
    files: dict[Path, bytearray] = {}
    for i, event in enumerate(events[: crash.events]):
        if isinstance(event, Told | Sync) or (i in loose and i not in crash.kept):
            continue
        path = folder / Path(event.path).relative_to(was)
        if isinstance(event, Index):
            files[path] = bytearray(event.data)
            continue
        data = files.setdefault(path, bytearray(path.read_bytes() if path.exists() else b""))
        if isinstance(event, Resize):
            if not event.grow:
                del data[event.nbytes :]
            data.extend(bytes(max(0, event.nbytes - len(data))))
            continue
        start, end = 0, len(event.data)
        if crash.part is not None and i == max(crash.kept):
            start, end = (min(s * _SECTOR, len(event.data)) for s in crash.part)
        data.extend(bytes(max(0, event.offset + end - len(data))))
        data[event.offset + start : event.offset + end] = event.data[start:end]
    for path, data in files.items():
        path.write_bytes(data)
