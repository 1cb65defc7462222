# SPDX-License-Identifier: Apache-2.0
"""One session's journal: an append-only file of frames. Writes, syncs and reads it; what the records mean is elsewhere.

A record is in the file when `append` returns, so that it outlives the process; it outlives the machine after `sync`,
which comes by itself after every `every` generated tokens and at the borders of turns. A journal that is closed ends
with a mark: a bad record before it is damage, and not what a crash tore.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from nearkv_driver.errors import StorageError
from nearkv_driver.syscalls import Syscalls, SystemCalls

from nearkv.errors import UserError
from nearkv.session import frames
from nearkv.session.records import (
    MARK,
    Header,
    JournalInvalid,
    Mark,
    Record,
    SessionState,
    Token,
    decode,
    encode,
    replay,
)
from nearkv.volume_errors import VolumeDamaged
from nearkv.volume_files import check_regular, read_whole, unreadable
from nearkv.volume_identity import sync_folder

T = TypeVar("T")
_log = logging.getLogger(__name__)

# A journal that is larger is not read, and so none is written: crops take tokens from a session but add records.
NBYTES_MAX = 1 << 28

# More than a header has: its names are bounded.
_HEADER_NBYTES_MAX = 1 << 16

# In less there is no room for a crop, and the turn, prompt and token that give K and V to other tokens.
_DOUBTFUL_NBYTES = 4 * frames.HEAD_NBYTES


@dataclass(frozen=True)
class Found:
    """What a journal held: the session, and bytes at its end that are no whole record (0: it was closed properly, or
    a crash fell between two records)."""

    state: SessionState
    torn_nbytes: int


def read_journal(path: Path, *, accept_damage: bool = False) -> Found:
    """Reads without changing anything; also while another process writes.

    Last records that are not whole are what a crash leaves, and are counted. A bad record that had been durable is
    VolumeDamaged with its offset, unless `accept_damage` takes what comes before it. VolumeDamaged also for a file
    whose records make no session; StorageError where it cannot be read.
    """
    return _judge(path, read_bytes(path), accept_damage)[0]


def read_header(path: Path) -> Header:
    """The first record alone, whatever follows it; raises as `read_journal`."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            frame = frames.first(file.read(_HEADER_NBYTES_MAX))
        header = None if frame is None else decode(frame)
    except OSError as error:
        raise unreadable(path, error.errno or 0) from error
    except JournalInvalid as error:
        raise VolumeDamaged(f"not the journal of a session: {error}", path=str(path)) from error
    if not isinstance(header, Header):
        raise VolumeDamaged("not a journal: it has no header", path=str(path))
    return header


def parse_journal(path: Path, data: bytes) -> tuple[Found, list[Record]]:
    """What a journal's bytes say, and every record of them but marks; raises as `read_journal`."""
    found, scan = _judge(path, data, False)
    return found, [decode(frame) for frame in scan.frames if frame.kind != MARK]


def read_bytes(path: Path) -> bytes:
    """A journal as it is in the file; VolumeDamaged for what is none, StorageError where it cannot be read."""
    try:
        return read_whole(path, NBYTES_MAX)
    except FileNotFoundError as error:
        raise unreadable(path, errno.ENOENT) from error


def pack_records(records: Sequence[Record]) -> bytes:
    """What a journal with these records has."""
    packed = (frames.pack(kind, i, i, payload) for i, (kind, payload) in enumerate(map(encode, records)))
    return b"".join(packed)


def doubtful(torn_nbytes: int) -> bool:
    """Whether so many bytes at a journal's end may have had a crop and what was said after it, so that stored K and V
    may be of other tokens than the journal has now."""
    return torn_nbytes >= _DOUBTFUL_NBYTES


class Journal:
    """Use `create` or `open`; a context manager. The caller holds the volume's lock, so nobody else writes.

    `every`: a sync after so many generated tokens; 0: only at the end of a turn. After a failed sync nothing is
    written any more, since what was written before is not known to be stored.
    """

    def __init__(self, path: Path, fd: int, calls: Syscalls, every: int, serial: int, nbytes: int) -> None:
        """Use `create` or `open`."""
        self.path, self.every = path, every
        self._fd, self._calls = fd, calls
        self._serial, self._durable, self._end = serial, 0, nbytes
        self._marked = False
        self._marks = 0  # since it was opened
        self._failed = ""
        self.write_nbytes = self.syncs = 0

    @classmethod
    def create(
        cls,
        path: Path,
        header: Header,
        *,
        records: Sequence[Record] = (),
        every: int = 1,
        syscalls: Syscalls | None = None,
    ) -> Self:
        """A new journal, durable with header and `records` when this returns; FileExistsError when the file exists."""
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        new = path.with_name(path.name + ".new")
        new.unlink(missing_ok=True)
        journal = cls._opened(new, os.O_CREAT | os.O_EXCL, every, syscalls, 0, 0)
        try:
            _private(new)
            for record in (header, *records):
                journal._put(record)
            journal.sync()
            new.rename(path)
            sync_folder(path.parent)
        except BaseException as error:
            journal.close()
            for name in (new, path):  # perhaps it has its name already, and who is told that it failed begins anew
                with suppress(OSError):
                    name.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise _storage("cannot be created", path, error) from error
            raise
        journal.path = path
        return journal

    @classmethod
    def open(
        cls, path: Path, *, every: int = 1, accept_damage: bool = False, syscalls: Syscalls | None = None
    ) -> tuple[Self, Found]:
        """Opens to go on behind the last whole record; what follows it is cut off. Raises as `read_journal`."""
        found, scan = _judge(path, read_bytes(path), accept_damage)
        journal = cls._opened(path, 0, every, syscalls, len(scan.frames), scan.end)
        try:
            if scan.rest_nbytes:
                journal._call("truncate", lambda: journal._calls.truncate(journal._fd, scan.end))
            journal.sync()  # a killed process may have left what is in the file and not on the medium
            journal._marked = scan.frames[-1].kind == MARK
        except BaseException:
            journal.close()
            raise
        return journal, found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def records(self) -> int:
        """Records that are in the file, marks apart."""
        return self._serial - self._marks

    @property
    def failed(self) -> bool:
        """Whether a sync has failed, so that the last records may not be stored."""
        return bool(self._failed)

    def append(self, record: Record) -> None:
        """StorageError when it cannot be written; then it is not in the journal, and may be appended again. After a
        failed sync it is not known whether it is.

        UserError for a record with which the journal would be larger than what is read.
        """
        self._put(record)
        waiting = self._serial - self._durable
        if not isinstance(record, Token) or (self.every and waiting >= self.every):
            self.sync()

    def sync(self) -> None:
        """Everything appended is durable when this returns."""
        if self._failed:
            raise StorageError(self._failed, path=str(self.path))
        try:
            self._call("sync", lambda: self._calls.fdatasync(self._fd))
        except StorageError as error:
            self._failed = f"an earlier sync failed ({error.errno_name}); open the session again"
            raise
        self._durable = self._serial
        self.syncs += 1

    def settle(self) -> None:
        """As `sync`, where something is not durable yet; StorageError too where an earlier sync failed."""
        if self._failed or self._serial > self._durable:
            self.sync()

    def close(self) -> None:
        """Syncs what is not yet, unless a sync has failed, and marks the end. May be called again."""
        fd = self._fd
        if fd < 0:
            return
        try:
            if not self._failed:
                self.settle()
                self._mark()
        finally:
            self._fd = -1
            self._calls.close(fd)

    def _mark(self) -> None:
        """Everything is durable without it, so a disk that has no room for it is no failure."""
        if self._marked:
            return
        try:
            self._put(Mark())
        except StorageError as error:
            if error.errno_name != "ENOSPC":
                raise
            _log.warning("%s: damage of its last record could not be told from a torn write: %s", self.path, error)
        else:
            self.sync()

    def _put(self, record: Record) -> None:
        if self._failed:
            raise StorageError(self._failed, path=str(self.path))
        kind, payload = encode(record)
        data = memoryview(frames.pack(kind, self._serial, self._durable, payload))
        mark = 0 if kind == MARK else frames.HEAD_NBYTES  # there is always room for it
        if self._end + data.nbytes + mark > NBYTES_MAX:
            raise UserError(
                f"{self.path}: the journal has {self._end:,} bytes, and at most {NBYTES_MAX:,} are read again; "
                "go on in a new session"
            )
        done = 0
        try:
            while done < data.nbytes:
                write = partial(self._calls.pwritev, self._fd, data[done:], self._end + done)
                put = self._call("write", write, data.nbytes - done)
                if put == 0:
                    raise StorageError(f"write stalled after {done} of {data.nbytes} bytes", path=str(self.path))
                done += put
        except BaseException:
            # A part that stays would be taken for what a crash tore off, and K and V be doubted for it.
            with suppress(OSError):
                self._calls.truncate(self._fd, self._end)
            raise
        self._marked = kind == MARK
        self._marks += self._marked
        self._serial += 1
        self._end += data.nbytes
        self.write_nbytes += data.nbytes

    @classmethod
    def _opened(cls, path: Path, flags: int, every: int, syscalls: Syscalls | None, serial: int, nbytes: int) -> Self:
        if every < 0:
            raise ValueError(f"every = {every}; tokens between two syncs, 0 for none, are expected")
        calls: Syscalls = syscalls if syscalls is not None else SystemCalls()
        try:
            fd = calls.open(str(path), os.O_RDWR | flags)
        except OSError as error:
            raise _storage("cannot be opened", path, error) from error
        return cls(path, fd, calls, every, serial, nbytes)

    def _call(self, what: str, call: Callable[[], T], nbytes: int = 0) -> T:
        while True:
            try:
                return call()
            except InterruptedError:
                continue
            except OSError as error:
                if error.errno == errno.ENOSPC and nbytes:
                    free = self._calls.free_nbytes(self._fd)
                    what = f"{what} failed, disk full: {nbytes} bytes needed, {free} free"
                    raise _storage(what, self.path, error) from error
                raise _storage(f"{what} failed", self.path, error) from error


def _judge(path: Path, data: bytes, accept_damage: bool) -> tuple[Found, frames.Scan]:
    scan = frames.scan(data)
    if scan.damaged and not accept_damage:
        raise VolumeDamaged(
            f"record {len(scan.frames)} at byte {scan.end} is damaged; later ones say that it had been stored",
            path=str(path),
        )
    try:
        state = replay(decode(frame) for frame in scan.frames)
    except JournalInvalid as error:
        raise VolumeDamaged(f"not the journal of a session: {error}", path=str(path)) from error
    if state.header is None:
        raise VolumeDamaged("not a journal: it has no header", path=str(path))
    return Found(state, scan.rest_nbytes), scan


def _private(path: Path) -> None:
    path.chmod(0o600)


def _storage(what: str, path: Path, error: OSError) -> StorageError:
    name = errno.errorcode.get(error.errno or 0, str(error.errno))
    return StorageError(f"{what}: {name} ({os.strerror(error.errno or 0)})", path=str(path), errno_name=name)
