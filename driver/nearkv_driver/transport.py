# SPDX-License-Identifier: Apache-2.0
"""The seam below the driver: what a kind of card must provide. Definitions only.

A transport moves register words and buffer bytes. Register sequences, polling, time limits, identity and error decoding
are in `device`, once for every kind of card. A transport that lacks something raises; it never imitates in silence, and
a read never returns data that the card did not give. `tests/contract` holds every transport to what is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from nearkv_driver.regmap import KERNEL

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Bank:
    """One memory bank: `tag` as in the link configuration (`DDR[0]`), `base` address, size in bytes."""

    tag: str
    index: int
    base: int
    nbytes: int


@dataclass(frozen=True)
class CardInfo:
    """What a transport knows of its card.

    masters: for each AXI master (kv, ctl, out) the index of the bank that it is linked to.
    p2p: whether drive-to-card transfers into P2P buffers work; `p2p_reason` says why not.
    simulated: True when no hardware is behind it.
    clock_hz: clock of the kernel, 0 where it is not known. A simulated card that has one counts time in its cycles.
    timeout_cycles: most cycles of a list on such a card; 0: the driver decides.
    unit: name of the compute unit.
    """

    url: str
    kind: str
    platform: str
    banks: tuple[Bank, ...]
    masters: Mapping[str, int]
    p2p: bool
    p2p_reason: str
    simulated: bool
    clock_hz: int = 0
    timeout_cycles: int = 0
    unit: str = KERNEL


class Buffer(Protocol):
    """Device memory with, unless `p2p`, a host copy of the same size. Offsets and sizes in bytes.

    A normal buffer: `write` and `read` touch the host copy only; `sync_to_device` and `sync_from_device` move it.
    A P2P buffer holds pages that a drive wrote: `write`, `read` and both syncs raise BufferMisuse; `view` gives the
    memory that `preadv` fills, page-aligned. `view` of a normal buffer raises BufferMisuse.
    Everything raises BufferMisuse after `free` (which may be called again) and for a range outside the buffer.
    """

    @property
    def nbytes(self) -> int: ...

    @property
    def address(self) -> int:
        """Device address; a multiple of 4096."""
        ...

    @property
    def bank(self) -> int: ...

    @property
    def p2p(self) -> bool: ...

    def write(self, data: Bytes, offset: int = 0) -> None: ...

    def read(self, nbytes: int, offset: int = 0) -> bytes: ...

    def sync_to_device(self, nbytes: int, offset: int = 0) -> None: ...

    def sync_from_device(self, nbytes: int, offset: int = 0) -> None: ...

    def view(self, nbytes: int, offset: int = 0) -> memoryview: ...

    def free(self) -> None: ...


class Transport(Protocol):
    """One open card. Not thread-safe: one thread at a time drives a card.

    Pointer arguments are addresses of buffers; a transport that only takes whole buffers refuses others. One that
    cannot read or write a register other than CTRL raises TransportUnavailable.
    """

    def read32(self, offset: int) -> int:
        """A register of s_axi_control; `offset` in bytes, a multiple of 4. ValueError outside the register file."""
        ...

    def write32(self, offset: int, value: int) -> None: ...

    def alloc(self, nbytes: int, bank: int, p2p: bool = False) -> Buffer:
        """A buffer of at least 1 byte and less than 4 GiB: zeros, or for a P2P one what the card's memory held.

        Raises ValueError for a size or bank that does not exist, OutOfDeviceMemory when the bank is full,
        TransportUnavailable for a P2P buffer where P2P does not work.
        """
        ...

    def pause(self, seconds: float) -> None:
        """Lets at most `seconds` pass, less if a list ends.

        Only here does time pass: what the kernel does shows in registers after a pause and at no other time. A
        simulated card with a clock (`CardInfo.clock_hz`) counts its own seconds, and there a register access takes some
        cycles too, in which the kernel moves as in a pause. Nothing else takes time.
        """
        ...

    def info(self) -> CardInfo: ...

    def close(self) -> None:
        """Frees everything; may be called again. Every other call then raises DriverError."""
        ...
