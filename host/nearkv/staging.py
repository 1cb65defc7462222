# SPDX-License-Identifier: Apache-2.0
"""Card memory for waves of streamed pages: a ring of equal slots with room for checksums, and two sets of states.

Reads and computes nothing. With P2P the drive fills the slots; without, they have a twin in host memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from nearkv_driver.device import NearDevice
from nearkv_driver.pagestore import aligned_buffer
from nearkv_driver.regmap import PAGE_BYTES, PAGE_CRC
from nearkv_driver.transport import Buffer

from nearkv.stream_options import StreamOptions


@dataclass(frozen=True, eq=False)
class Slot:
    """One staging buffer: pages at `address`, their checksums at `crc_address`; offsets are those in the ring."""

    number: int
    offset: int
    address: int
    crc_offset: int
    crc_address: int
    bounce: memoryview | None


class StagingRing:
    """Owns the memory until the card is closed. OutOfDeviceMemory when the card is too small for it."""

    def __init__(self, device: NearDevice, options: StreamOptions, *, p2p: bool) -> None:
        self._device = device
        count, size = options.waves, options.wave_nbytes
        crc = size // PAGE_BYTES // 2 * PAGE_CRC.nbytes
        self.pages: Buffer = device.alloc(count * size, p2p=p2p)
        self.crcs: Buffer = device.alloc(count * crc)
        self._states: Buffer | None = None
        self.slots = tuple(
            Slot(
                number=i,
                offset=i * size,
                address=self.pages.address + i * size,
                crc_offset=i * crc,
                crc_address=self.crcs.address + i * crc,
                bounce=None if p2p else aligned_buffer(size),
            )
            for i in range(count)
        )

    @property
    def nbytes(self) -> int:
        return self.pages.nbytes + self.crcs.nbytes + (self._states.nbytes if self._states else 0)

    def target(self, slot: Slot, at: int, nbytes: int) -> memoryview:
        """Where the drive's bytes go: card memory, or the host's on the bounce path."""
        if slot.bounce is not None:
            return slot.bounce[at : at + nbytes]
        return self.pages.view(nbytes, slot.offset + at)

    def states(self, nbytes: int) -> tuple[int, int]:
        """Device addresses of two sets of states of `nbytes` bytes each; a larger size replaces what was there."""
        if self._states is None or self._states.nbytes < 2 * nbytes:
            if self._states is not None:
                self._states.free()
                self._states = None
            self._states = self._device.alloc(2 * nbytes)
        return self._states.address, self._states.address + nbytes
