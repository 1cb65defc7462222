# SPDX-License-Identifier: Apache-2.0
"""One session's journal: an append-only file of frames. Writes and syncs it; what the records mean is elsewhere.

A record is in the file when `append` returns, so that it outlives the process; it outlives the machine after `sync`,
which comes by itself after every `every` generated tokens and at the borders of turns. A journal that is closed ends
with a mark: a bad record before it is damage, and not what a crash tore.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from nearkv_driver.errors import StorageError
from nearkv_driver.syscalls import Syscalls, SystemCalls

from nearkv.errors import UserError
from nearkv.ownership import Owner
from nearkv.session import frames
from nearkv.session.journal_reading import NBYTES_MAX, Found, judge, read_bytes
from nearkv.session.record_payloads import MARK, encode
from nearkv.session.records import Header, Mark, Record, Token
from nearkv.volume_files import unusable
from nearkv.volume_identity import sync_folder

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Journal:
    """Use `create` or `open`; a context manager. The caller holds the volume's lock, so nobody else writes; nor does a
    process that was forked since: to it only the file's number was handed down, not what has become of the file.

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
        self._owner = Owner("session")
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
        try:
            new.unlink(missing_ok=True)
        except OSError as error:
            raise unusable("cannot be removed", new, error.errno or 0) from error
        journal = cls._opened(new, os.O_CREAT | os.O_EXCL, every, syscalls, 0, 0)
        try:
            for record in (header, *records):
                journal._put(record)
            journal.sync()
            new.rename(path)
            sync_folder(path.parent)
        except BaseException as error:
            for name in (new, path):  # perhaps it has its name already, and who is told that it failed begins anew
                with suppress(OSError):
                    name.unlink(missing_ok=True)
            with suppress(StorageError):  # of a file without a name
                journal.close()
            if isinstance(error, OSError):
                raise unusable("cannot be created", path, error.errno or 0) from error
            raise
        journal.path = path
        return journal

    @classmethod
    def open(
        cls, path: Path, *, every: int = 1, accept_damage: bool = False, syscalls: Syscalls | None = None
    ) -> tuple[Self, Found]:
        """Opens to go on behind the last whole record; what follows it is cut off. Raises as `read_journal`."""
        found, scan = judge(path, read_bytes(path), accept_damage)
        journal = cls._opened(path, 0, every, syscalls, len(scan.frames), scan.end)
        try:
            if scan.rest_nbytes:
                journal._call("truncate", lambda: journal._calls.truncate(journal._fd, scan.end))
            journal.sync()  # a killed process may have left what is in the file and not on the medium
            sync_folder(path.parent)  # or the file under its name
            journal._marked = scan.frames[-1].kind == MARK
        except BaseException:
            journal._drop()  # without a mark, which would be written into what may still be behind the last record
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
        failed sync it is not known whether it is. StorageError too, and nothing written, where the file has lost its
        name since: nobody would find in it what is told to be stored.

        UserError for a record with which the journal would be larger than what is read.
        """
        self._require_name()
        self._put(record)
        waiting = self._serial - self._durable
        if not isinstance(record, Token) or (self.every and waiting >= self.every):
            self.sync()

    def _require_name(self) -> None:
        try:
            there = os.path.samestat(os.fstat(self._fd), os.stat(self.path))
        except FileNotFoundError:
            there = False
        except OSError as error:
            raise unusable("cannot be looked at", self.path, error.errno or 0) from error
        if not there:
            text = "was removed or replaced while the session had it open; no more is written"
            raise StorageError(text, path=str(self.path))

    def check_room(self, records: Iterable[Record], tokens: int) -> None:
        """UserError where `records` and so many generated tokens would make it larger than what is read."""
        payloads = sum(frames.HEAD_NBYTES + len(encode(record)[1]) for record in records)
        each = frames.HEAD_NBYTES + len(encode(Token(0))[1])
        self._check_room(payloads + tokens * each + frames.HEAD_NBYTES)

    def _check_room(self, nbytes: int) -> None:
        if self._end + nbytes > NBYTES_MAX:
            raise UserError(
                f"{self.path}: the journal has {self._end:,} bytes, and at most {NBYTES_MAX:,} are read again, which "
                f"{nbytes:,} more would pass; go on in a new session"
            )

    def sync(self) -> None:
        """Everything appended is durable when this returns."""
        self._owner.check()
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
        if self._fd < 0:
            return
        try:
            if self._owner.here and not self._failed:
                self.settle()
                self._mark()
        finally:
            self._drop()

    def _drop(self) -> None:
        """Closes the file as it is."""
        fd, self._fd = self._fd, -1
        self._calls.close(fd)

    def _mark(self) -> None:
        """Everything is durable without it, so a disk that has no room for it is no failure."""
        if self._marked:
            return
        try:
            self._put(Mark())
        except StorageError as error:
            if not error.no_room:
                raise
            _log.warning("%s: damage of its last record could not be told from a torn write: %s", self.path, error)
        else:
            self.sync()

    def _put(self, record: Record) -> None:
        self._owner.check()
        if self._failed:
            raise StorageError(self._failed, path=str(self.path))
        kind, payload = encode(record)
        data = memoryview(frames.pack(kind, self._serial, self._durable, payload))
        self._check_room(data.nbytes + (0 if kind == MARK else frames.HEAD_NBYTES))  # there is always room for a mark
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
            raise unusable("cannot be opened", path, error.errno or 0) from error
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
                    raise unusable(what, self.path, error.errno or 0) from error
                raise unusable(f"{what} failed", self.path, error.errno or 0) from error
