# SPDX-License-Identifier: Apache-2.0
"""Memory of the emulated card: the xclbin's banks at their addresses, and P2P buffers as files inside them.

The host maps the same files, so what a drive reads into a P2P buffer is there without a message. Normal buffers need
no record: the host's library hands out addresses, and a bank costs what is touched.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence

import numpy as np
from nearkv_driver.xclbin import Bank
from nearkv_driver.xclbin.tables import BankType

from nearkv_emulation.kernel import Region
from nearkv_emulation.xrt_device.mapping import Mapping
from nearkv_emulation.xrt_device.model import Memory, MemoryFault
from nearkv_emulation.xrt_device.p2p_files import P2pFiles

# Entries of an xclbin's table that are memory of the card; streams are listed there too.
_MEMORY = (BankType.DDR3, BankType.DDR4, BankType.DRAM, BankType.HBM, 7, 8)  # 7 and 8: block RAM, UltraRAM


def is_host(bank: Bank) -> bool:
    """Whether a bank is memory of the host; the shim goes by the tag."""
    return bank.type == BankType.HOST or "HOST" in bank.tag


def is_memory(bank: Bank) -> bool:
    """Whether a bank is memory of the card."""
    return bank.type in _MEMORY and bank.nbytes > 0 and not is_host(bank)


class DeviceMemory:
    """All banks of a design. Banks that touch are one range, as they are to a kernel that is linked to several."""

    def __init__(self, banks: Sequence[Bank], files: P2pFiles, host: Memory | None = None) -> None:
        self._files, self._host = files, host
        self._host_banks = [bank for bank in banks if is_host(bank)]
        self._spans: list[tuple[int, Mapping]] = []
        for base, nbytes in _ranges(banks):
            self._spans.append((base, Mapping(nbytes)))
        self._p2p: dict[int, int] = {}

    def regions(self, banks: Sequence[Bank]) -> list[Region]:
        """Banks as a kernel's master sees them; those that touch are one region."""
        found = []
        for base, nbytes in _ranges(banks):
            start, span = self._span(base, nbytes)
            found.append(Region(base, span.memory[base - start : base - start + nbytes]))
        return found

    def read(self, address: int, nbytes: int) -> bytes:
        if self._host is not None and self._in_host(address):
            return self._host.read(address, nbytes)
        start, span = self._span(address, nbytes)
        return span.memory[address - start : address - start + nbytes].tobytes()

    def write(self, address: int, data: bytes | memoryview) -> None:
        if self._host is not None and self._in_host(address):
            self._host.write(address, data)
            return
        start, span = self._span(address, len(data))
        span.memory[address - start : address - start + len(data)] = np.frombuffer(data, np.uint8)

    def add_p2p(self, address: int, nbytes: int) -> str:
        """Puts a new file behind the range and returns its path. Raises MemoryFault, OSError."""
        size = self._require_room(address, nbytes)
        file = self._files.make(address, size)
        try:
            start, span = self._span(address, size)
            span.put_file(address - start, size, file.fd)
            self._p2p[address] = size
        finally:
            file.close()
        return file.path

    def free(self, address: int) -> None:
        """A buffer is gone; only P2P ones have something to give back."""
        size = self._p2p.pop(address, None)
        if size is not None:
            start, span = self._span(address, size)
            span.clear(address - start, size)
            self._files.remove(address)

    def _require_room(self, address: int, nbytes: int) -> int:
        """The size in whole pages of a range that may become a P2P buffer."""
        size = _whole_pages(nbytes)
        self._span(address, size)
        if address % mmap.PAGESIZE or not size:
            raise MemoryFault(
                f"a P2P buffer of {nbytes} bytes at {address:#x}; it has at least 1 and starts at a multiple of "
                f"{mmap.PAGESIZE}"
            )
        for other, other_size in self._p2p.items():
            if address < other + other_size and other < address + size:
                raise MemoryFault(f"a P2P buffer at {address:#x} lies in the one at {other:#x}, which is not freed")
        return size

    def close(self) -> None:
        for address in tuple(self._p2p):
            self.free(address)
        for _, span in self._spans:
            span.close()

    def _in_host(self, address: int) -> bool:
        return any(bank.base <= address < bank.base + bank.nbytes for bank in self._host_banks)

    def _span(self, address: int, nbytes: int) -> tuple[int, Mapping]:
        for base, span in self._spans:
            if base <= address and address + nbytes <= base + span.nbytes:
                return base, span
        ranges = ", ".join(f"{base:#x} to {base + span.nbytes:#x}" for base, span in self._spans)
        raise MemoryFault(f"{nbytes} bytes at {address:#x}; the card has memory at {ranges or 'no address'}")


def _ranges(banks: Sequence[Bank]) -> Iterator[tuple[int, int]]:
    """Address and size of what the memory banks among `banks` cover together, in whole pages."""
    start = end = -1
    for bank in sorted(filter(is_memory, banks), key=lambda b: b.base):
        if bank.base % mmap.PAGESIZE:
            raise ValueError(f"bank {bank.tag} begins at {bank.base:#x}, which is no multiple of {mmap.PAGESIZE}")
        if bank.base > end:
            if end > start:
                yield start, _whole_pages(end - start)
            start = bank.base
        end = max(end, bank.base + bank.nbytes)
    if end > start:
        yield start, _whole_pages(end - start)


def _whole_pages(nbytes: int) -> int:
    return -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
