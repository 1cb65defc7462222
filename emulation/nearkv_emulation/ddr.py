# SPDX-License-Identifier: Apache-2.0
"""Memory of an emulated card: finite banks at 64-bit addresses, and buffers that behave as on a card.

Bank memory is mapped lazily, so a large bank costs only what is touched. Host copies are apart from it: data that was
not synced is not seen on the other side.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right, insort
from collections.abc import Callable

import numpy as np
from nearkv_driver.aligned_memory import ask_for_huge_pages
from nearkv_driver.errors import BufferMisuse, OutOfDeviceMemory
from nearkv_driver.transport import Bank, Bytes
from numpy.typing import NDArray

ALIGN = 4096
# Linux's MAP_NORESERVE, which Python 3.11 does not name: address space is not charged as memory.
_MAP_NORESERVE = 0x4000
# What the first bytes of freed memory are filled with: NaN in FP16, so that a kernel which still reads them fails. The
# rest goes back to the system.
_POISON, _POISON_NBYTES = 0xFF, 16 << 20


class DdrBank:
    """One bank and its first-fit allocator. Allocations are multiples of 4096 bytes. ValueError for a size that the
    machine's address space does not hold."""

    def __init__(self, bank: Bank, card: str) -> None:
        self.bank = bank
        self.card = card
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        try:
            self._map = mmap.mmap(-1, bank.nbytes, flags=flags)
        except (OSError, OverflowError) as error:
            raise ValueError(
                f"card URL {card!r}: this machine cannot map a bank of {bank.nbytes} bytes; give a smaller dram"
            ) from error
        ask_for_huge_pages(self._map)
        self._free = [(0, bank.nbytes)]
        self._used: dict[int, int] = {}
        self._starts: list[int] = []

    @property
    def memory(self) -> NDArray[np.uint8]:
        """The whole bank, writable, without a copy."""
        return np.frombuffer(self._map, np.uint8)

    def view(self, start: int, nbytes: int) -> memoryview:
        return memoryview(self._map)[start : start + nbytes]

    def take(self, nbytes: int) -> int:
        """Offset of a zeroed range; OutOfDeviceMemory when no gap is large enough."""
        size = -(-nbytes // ALIGN) * ALIGN
        for i, (start, room) in enumerate(self._free):
            if room >= size:
                self._free[i : i + 1] = [(start + size, room - size)] if room > size else []
                self._used[start] = size
                insort(self._starts, start)
                self._zero(start, size)
                return start
        largest = max((room for _, room in self._free), default=0)
        total = sum(room for _, room in self._free)
        raise OutOfDeviceMemory(
            f"{self.bank.tag} of {self.bank.nbytes} bytes cannot hold {size} more; "
            f"{total} are free, {largest} in one piece",
            card=self.card,
            bank=self.bank.tag,
            needed=size,
            available=total,
        )

    def give(self, start: int) -> None:
        """Returns a range that `take` gave."""
        size = self._used.pop(start)
        self._starts.remove(start)
        kept = min(size, _POISON_NBYTES)
        self.memory[start : start + kept] = _POISON
        if size > kept:
            self._zero(start + kept, size - kept)
        insort(self._free, (start, size))
        merged: list[tuple[int, int]] = []
        for begin, room in self._free:
            if merged and sum(merged[-1]) == begin:
                merged[-1] = (merged[-1][0], merged[-1][1] + room)
            else:
                merged.append((begin, room))
        self._free = merged

    def holds(self, address: int) -> bool:
        """Whether a device address lies in a range that is allocated now."""
        at = address - self.bank.base
        before = bisect_right(self._starts, at)
        return before > 0 and at < self._starts[before - 1] + self._used[self._starts[before - 1]]

    def _zero(self, start: int, size: int) -> None:
        if start % mmap.PAGESIZE or size % mmap.PAGESIZE:
            self.memory[start : start + size] = 0
        else:
            self._map.madvise(mmap.MADV_DONTNEED, start, size)


class DdrBuffer:
    """Device memory of a bank; see nearkv_driver.transport.Buffer for the rules it keeps.

    `filled` is told the device address and size of each view: what a drive is going to write.
    """

    def __init__(self, bank: DdrBank, nbytes: int, p2p: bool, filled: Callable[[int, int], None] | None = None) -> None:
        self._bank, self._nbytes, self._p2p = bank, nbytes, p2p
        self._filled = filled
        self._start = bank.take(nbytes)
        self._host: NDArray[np.uint8] | None = None if p2p else np.zeros(nbytes, np.uint8)
        self._freed = False

    @property
    def nbytes(self) -> int:
        return self._nbytes

    @property
    def address(self) -> int:
        self._range(0, 0)
        return self._bank.bank.base + self._start

    @property
    def bank(self) -> int:
        return self._bank.bank.index

    @property
    def freed(self) -> bool:
        return self._freed

    @property
    def p2p(self) -> bool:
        return self._p2p

    def write(self, data: Bytes, offset: int = 0) -> None:
        source = memoryview(data).cast("B")
        self._copy("write")[self._range(offset, source.nbytes)] = np.frombuffer(source, np.uint8)

    def read(self, nbytes: int, offset: int = 0) -> bytes:
        return self._copy("read")[self._range(offset, nbytes)].tobytes()

    def sync_to_device(self, nbytes: int, offset: int = 0) -> None:
        copy, where = self._copy("sync_to_device"), self._range(offset, nbytes)
        self._device(where)[:] = copy[where]

    def sync_from_device(self, nbytes: int, offset: int = 0) -> None:
        copy, where = self._copy("sync_from_device"), self._range(offset, nbytes)
        copy[where] = self._device(where)

    def view(self, nbytes: int, offset: int = 0) -> memoryview:
        where = self._range(offset, nbytes)
        if not self._p2p:
            raise BufferMisuse("view of a buffer that is not P2P", card=self._bank.card)
        if self._filled is not None and nbytes:
            self._filled(self.address + offset, nbytes)
        return self._bank.view(self._start + where.start, nbytes)

    def free(self) -> None:
        if not self._freed:
            self.detach()
            self._bank.give(self._start)

    def detach(self) -> None:
        """Makes the buffer unusable and leaves its memory alone: the whole card goes."""
        self._freed, self._host = True, None

    def _device(self, where: slice) -> NDArray[np.uint8]:
        return self._bank.memory[self._start + where.start : self._start + where.stop]

    def _copy(self, what: str) -> NDArray[np.uint8]:
        self._range(0, 0)
        if self._host is None:
            raise BufferMisuse(f"{what} of a P2P buffer: only the drive writes it", card=self._bank.card)
        return self._host

    def _range(self, offset: int, nbytes: int) -> slice:
        if self._freed:
            raise BufferMisuse("a buffer was used after it was freed", card=self._bank.card)
        if offset < 0 or nbytes < 0 or offset + nbytes > self._nbytes:
            raise BufferMisuse(
                f"{nbytes} bytes at {offset} leave the buffer of {self._nbytes} bytes", card=self._bank.card
            )
        return slice(offset, offset + nbytes)
