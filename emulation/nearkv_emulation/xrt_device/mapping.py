# SPDX-License-Identifier: Apache-2.0
"""A range of address space into whose middle files can be mapped, which Python's own `mmap` cannot do. No addresses of
the device here: offsets only.
"""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np
from numpy.typing import NDArray

_MAP_FIXED, _MAP_NORESERVE = 0x10, 0x4000  # Linux
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE


class Mapping:
    """`nbytes` of zeroes that cost memory where they are touched. `close` makes every view of it invalid."""

    def __init__(self, nbytes: int) -> None:
        if nbytes <= 0 or nbytes % mmap.PAGESIZE:
            raise ValueError(f"a mapping of {nbytes} bytes; a multiple of {mmap.PAGESIZE} above 0 is expected")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
        self._libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.nbytes = nbytes
        self._address: int | None = self._map(None, nbytes, _ANONYMOUS, -1)
        whole = memoryview((ctypes.c_uint8 * nbytes).from_address(self._address))
        self.memory: NDArray[np.uint8] = np.frombuffer(whole, np.uint8)

    def put_file(self, offset: int, nbytes: int, fd: int) -> None:
        """Shows the first `nbytes` of a file, shared, from `offset` on; both are multiples of a page."""
        self._map(self._at(offset, nbytes), nbytes, mmap.MAP_SHARED | _MAP_FIXED, fd)

    def clear(self, offset: int, nbytes: int) -> None:
        """Zeroes in place of what was there."""
        self._map(self._at(offset, nbytes), nbytes, _ANONYMOUS | _MAP_FIXED, -1)

    def close(self) -> None:
        if self._address is not None:
            self.memory = np.zeros(0, np.uint8)
            self._libc.munmap(self._address, self.nbytes)
            self._address = None

    def _at(self, offset: int, nbytes: int) -> int:
        if self._address is None or nbytes <= 0 or offset < 0 or offset + nbytes > self.nbytes:
            raise ValueError(f"{nbytes} bytes at {offset} of a mapping of {self.nbytes} bytes")
        if offset % mmap.PAGESIZE or nbytes % mmap.PAGESIZE:
            raise ValueError(f"{nbytes} bytes at {offset}; multiples of {mmap.PAGESIZE} are expected")
        return self._address + offset

    def _map(self, address: int | None, nbytes: int, flags: int, fd: int) -> int:
        got = self._libc.mmap(address, nbytes, _READ_WRITE, flags, fd, 0)
        if got is None or got == ctypes.c_void_p(-1).value:
            number = ctypes.get_errno()
            raise OSError(number, f"{nbytes} bytes cannot be mapped: {os.strerror(number)}")
        return int(got)
