# SPDX-License-Identifier: Apache-2.0
"""One preallocated data file of a volume, read and written in whole 4 KiB pages, past the page cache by default.

Knows nothing of what the pages hold or which are used. Reads may come from several threads at once.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from nearkv_driver.aligned_memory import aligned_buffer, page_aligned
from nearkv_driver.checksum import crc32c, page_crcs
from nearkv_driver.errors import DirectIoUnavailable, StorageError
from nearkv_driver.filesystem import filesystem_of
from nearkv_driver.peer_read import PeerReads
from nearkv_driver.regmap import PAGE_BYTES
from nearkv_driver.syscalls import Syscalls, SystemCalls
from nearkv_driver.transport import Bytes

__all__ = ["PageFile", "aligned_buffer", "crc32c", "page_crcs"]

_log = logging.getLogger(__name__)


class PageFile:
    """Use as a context manager, or call `close`. Offsets and sizes are multiples of 4096 bytes.

    `io` is "direct" or "buffered". A file that was opened direct and whose file system refuses a transfer later goes
    on buffered: one warning, counted in `direct_refusals`. Memory that the drive cannot write is filled through host
    memory, see `peer`. After a failed `sync` nothing is written any more, since
    what was written before is not known to be stored.
    """

    def __init__(self, path: str, fd: int, direct: bool, calls: Syscalls) -> None:
        """Use `open`."""
        self.path = path
        self._fd, self._direct, self._calls = fd, direct, calls
        self._lock = threading.Lock()
        self._unsynced = ""
        self.peer = PeerReads(path, calls)
        self.read_nbytes = self.write_nbytes = self.direct_refusals = 0
        self._grown = calls.size(fd)  # what writes may use; asking the system at each would cost as much as a call

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool,
        direct: bool = True,
        writable: bool = True,
        syscalls: Syscalls | None = None,
    ) -> Self:
        """Opens an existing file, or with `create` makes an empty one (it must not exist); not `writable`: to read.

        With `direct` a page is moved to see that O_DIRECT works here; DirectIoUnavailable when not, and a file that was
        made is removed again.
        """
        calls: Syscalls = syscalls if syscalls is not None else SystemCalls()
        text = os.fspath(path)
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT | os.O_EXCL if create else 0)
        try:
            fd = calls.open(text, flags | (os.O_DIRECT if direct else 0))
        except OSError as error:
            if direct and error.errno == errno.EINVAL:
                # Some file systems make the file before they refuse the flag.
                if create:
                    Path(text).unlink(missing_ok=True)
                raise _no_direct(text, error) from error
            raise _failed("open", text, error) from error
        file = cls(text, fd, direct, calls)
        try:
            if direct and writable:
                file._probe()
        except BaseException:
            file.close()
            if create:
                Path(text).unlink(missing_ok=True)
            raise
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def io(self) -> str:
        return "direct" if self._direct else "buffered"

    @property
    def size(self) -> int:
        """Bytes of the file; what a torn file has may not be whole pages."""
        return self._calls.size(self._handle())

    def grow(self, nbytes: int, *, leave_nbytes: int = 0) -> None:
        """Preallocates up to `nbytes` in all; StorageError with needed and free bytes when the disk is full, or would
        have less than `leave_nbytes` left."""
        _pages("size", nbytes)
        if nbytes <= (have := self.size):
            self._grown = have
            return
        try:
            self._calls.allocate(self._fd, have, nbytes - have)
            if leave_nbytes and self._calls.free_nbytes(self._fd) < leave_nbytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with suppress(OSError):  # a drive that refuses both: what was added stays, and is used later
                self._calls.truncate(self._fd, have)
            if error.errno != errno.ENOSPC:
                raise _failed("preallocation", self.path, error, have, nbytes - have) from error
            raise self._full(error, have, nbytes - have, leave_nbytes) from error
        self._grown = nbytes

    def read_into(self, view: memoryview, offset: int) -> None:
        """Fills `view`, whose memory is page-aligned, from `offset`; short reads are completed."""
        data = page_aligned(view)
        if data is None:
            raise ValueError("the memory to read into is not page-aligned; use aligned_buffer or a P2P view")
        _pages("offset", offset)
        _pages("size", data.nbytes)
        done = stalled = 0
        while done < data.nbytes:
            direct = self._direct
            try:
                got = self.peer.preadv(self._handle(), data[done:], offset + done)
            except InterruptedError:
                continue
            except OSError as error:
                if direct and self._lost_direct(error, "read", offset + done, data.nbytes - done):
                    continue
                raise _failed("read", self.path, error, offset + done, data.nbytes - done) from error
            # Direct I/O goes on at a page; a part of a page is read again, once.
            whole = got if done + got == data.nbytes else got // PAGE_BYTES * PAGE_BYTES
            stalled = 0 if whole else stalled + 1
            if got == 0 or stalled > 1:
                raise StorageError(
                    f"early end: wanted {data.nbytes} bytes at {offset}, got {done + got}",
                    path=self.path,
                    offset=offset,
                    nbytes=data.nbytes,
                )
            done += whole
        with self._lock:
            self.read_nbytes += done

    def write(self, data: Bytes, offset: int) -> None:
        """Writes whole pages inside the preallocated size; memory that is not page-aligned is copied first."""
        source = memoryview(data).cast("B")
        _pages("offset", offset)
        _pages("size", source.nbytes)
        if offset + source.nbytes > self._grown:
            raise ValueError(f"{source.nbytes} bytes at {offset} pass the end of {self.path} at {self._grown}; grow it")
        if self._unsynced:
            raise StorageError(self._unsynced, path=self.path, offset=offset, nbytes=source.nbytes)
        pages = page_aligned(source)
        if pages is None:
            pages = aligned_buffer(source.nbytes)
            pages[:] = source
        done = stalled = 0
        while done < pages.nbytes:
            direct = self._direct
            try:
                put = self._calls.pwritev(self._handle(), pages[done:], offset + done)
            except InterruptedError:
                continue
            except OSError as error:
                if direct and self._lost_direct(error, "write", offset + done, pages.nbytes - done):
                    continue
                if error.errno == errno.ENOSPC:
                    raise self._full(error, offset + done, pages.nbytes - done) from error
                raise _failed("write", self.path, error, offset + done, pages.nbytes - done) from error
            whole = put if done + put == pages.nbytes else put // PAGE_BYTES * PAGE_BYTES
            stalled = 0 if whole else stalled + 1
            if stalled > 1:
                raise StorageError(
                    f"write stalled: wanted {pages.nbytes} bytes at {offset}, put {done + put}",
                    path=self.path,
                    offset=offset,
                    nbytes=pages.nbytes,
                )
            done += whole
        with self._lock:
            self.write_nbytes += done

    def sync(self) -> None:
        """Returns when everything written is on the medium; StorageError when that is not known."""
        if self._unsynced:
            raise StorageError(self._unsynced, path=self.path)
        while True:
            try:
                self._calls.fdatasync(self._handle())
            except InterruptedError:
                continue
            except OSError as error:
                name = _name(error)
                self._unsynced = f"an earlier sync failed ({name}); what was written before is not known to be stored"
                raise _failed("sync", self.path, error) from error
            return

    def close(self) -> None:
        """May be called again. Does not sync."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._calls.close(fd)

    def _handle(self) -> int:
        if self._fd < 0:
            raise StorageError("the file is closed", path=self.path)
        return self._fd

    def _probe(self) -> None:
        """Moves one page. An empty file gets it and loses it again; others are only read."""
        page = aligned_buffer(PAGE_BYTES)
        try:
            if self._calls.size(self._fd) >= PAGE_BYTES:
                _uninterrupted(lambda: self._calls.preadv(self._fd, page, 0))
            elif self._calls.size(self._fd) == 0:
                _uninterrupted(lambda: self._calls.pwritev(self._fd, page, 0))
                self._calls.truncate(self._fd, 0)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise _no_direct(self.path, error) from error
            if error.errno == errno.ENOSPC:
                raise self._full(error, 0, PAGE_BYTES) from error
            raise _failed("probe", self.path, error, 0, PAGE_BYTES) from error

    def _lost_direct(self, error: OSError, what: str, offset: int, nbytes: int) -> bool:
        """Whether a direct transfer failed because it was direct, and is worth another try without."""
        if error.errno != errno.EINVAL:
            return False
        with self._lock:
            if not self._direct:
                return True  # another thread has turned it off since this transfer began
            self._calls.clear_direct(self._fd)
            self._direct = False
            self.direct_refusals += 1
        _log.warning(
            "%s: direct %s of %d bytes at %d, memory aligned to %d, was refused (%s); going on buffered",
            self.path,
            what,
            nbytes,
            offset,
            PAGE_BYTES,
            _name(error),
        )
        return True

    def _full(self, error: OSError, offset: int, nbytes: int, leave_nbytes: int = 0) -> StorageError:
        free = self._calls.free_nbytes(self._fd)
        kept = f", of which {leave_nbytes} are kept for the index and journals" if leave_nbytes else ""
        return StorageError(
            f"disk full: {nbytes} bytes needed, {free} free{kept}",
            path=self.path,
            offset=offset,
            nbytes=nbytes,
            errno_name=_name(error),
        )


def _uninterrupted(call: Callable[[], object]) -> object:
    while True:
        with suppress(InterruptedError):
            return call()


def _pages(what: str, nbytes: int) -> None:
    if nbytes < 0 or nbytes % PAGE_BYTES:
        raise ValueError(f"{what} = {nbytes}; it must be a multiple of {PAGE_BYTES}, not negative")


def _name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error.errno))


def _failed(what: str, path: str, error: OSError, offset: int = 0, nbytes: int = 0) -> StorageError:
    where = f" of {nbytes} bytes at {offset}" if nbytes else ""
    text = f"{what}{where} failed: {_name(error)} ({os.strerror(error.errno or 0)})"
    return StorageError(text, path=path, offset=offset, nbytes=nbytes, errno_name=_name(error))


def _no_direct(path: str, error: OSError) -> DirectIoUnavailable:
    kind = filesystem_of(path)
    return DirectIoUnavailable(
        f"the file system ({kind}) refuses O_DIRECT; put the volume elsewhere or add io=buffered to the card URL",
        path=path,
        filesystem=kind,
        errno_name=_name(error),
    )
