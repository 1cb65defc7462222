# SPDX-License-Identifier: Apache-2.0
"""Reads of one file that a drive was to do straight into a card's memory and could not: they go through host memory.

Told once, counted, and remembered: later reads do not try again. A read that fails for another reason is not touched.
"""

from __future__ import annotations

import errno
import logging
import mmap
import threading

from nearkv_driver.peer_errors import advice
from nearkv_driver.syscalls import Syscalls

# Refusals of memory that no drive can write. EIO is not among them: it may be the medium.
_REFUSALS = (errno.EFAULT, errno.EREMOTEIO, errno.EOPNOTSUPP)
_CHUNK_NBYTES = 4 << 20
_log = logging.getLogger(__name__)


class PeerReads:
    """`nbytes` went through host memory after `refusal`, the name of the error number that was met first."""

    def __init__(self, path: str, calls: Syscalls) -> None:
        self._path, self._calls = path, calls
        self._lock = threading.Lock()
        self.nbytes = 0
        self.refusal = ""

    def preadv(self, fd: int, view: memoryview, offset: int) -> int:
        """As `os.preadv` into one buffer."""
        if self.refusal:
            return self._around(fd, view, offset)
        try:
            return self._calls.preadv(fd, view, offset)
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
            got = self._around(fd, view, offset)  # raises when host memory does no better
            self._remember(errno.errorcode[error.errno])
            return got

    def _around(self, fd: int, view: memoryview, offset: int) -> int:
        host = memoryview(mmap.mmap(-1, min(view.nbytes, _CHUNK_NBYTES)))
        got = self._calls.preadv(fd, host, offset)
        view[:got] = host[:got]
        with self._lock:
            self.nbytes += got
        return got

    def _remember(self, name: str) -> None:
        with self._lock:
            if self.refusal:
                return
            self.refusal = name
        text = "%s: a read into card memory was refused (%s); going on through host memory. %s"
        _log.warning(text, self._path, name, advice(name))
