# SPDX-License-Identifier: Apache-2.0
"""Card memory for extents: runs of slots in P2P buffers, with their checksum arrays beside them. Moves no data.

Memory is taken from the card in chunks, so that a card needs few buffers, and given back when a chunk is empty. Without
P2P the chunks are ordinary buffers that the host writes. An extent that gets no memory here is streamed.
"""

from __future__ import annotations

from dataclasses import dataclass

from nearkv_driver.device import NearDevice
from nearkv_driver.errors import OutOfDeviceMemory
from nearkv_driver.transport import Buffer

from nearkv.layout import ModelLayout
from nearkv.runs import RunAllocator

_CHUNK_NBYTES = 32 << 20
# A chunk is at most this share of what may still be taken, so that little is left over.
_CHUNK_SHARE = 8


@dataclass(eq=False)
class _Chunk:
    pages: Buffer
    crcs: Buffer
    runs: RunAllocator


@dataclass(frozen=True, eq=False)
class ExtentRun:
    """`slots` slots of card memory: pages at `pages` + `offset`, checksums at `crcs` + `crc_offset`."""

    chunk: _Chunk
    slot: int
    slots: int
    offset: int
    crc_offset: int

    @property
    def pages(self) -> Buffer:
        return self.chunk.pages

    @property
    def crcs(self) -> Buffer:
        return self.chunk.crcs

    @property
    def address(self) -> int:
        return self.chunk.pages.address + self.offset

    @property
    def crc_address(self) -> int:
        return self.chunk.crcs.address + self.crc_offset


class ExtentPool:
    """All extent memory of one card."""

    def __init__(self, device: NearDevice, layout: ModelLayout, *, p2p: bool) -> None:
        self._device, self._p2p = device, p2p
        self._slot_nbytes = layout.slot_nbytes
        self._slot_crc_nbytes = layout.layers * layout.extent_pages * 8
        self._chunks: list[_Chunk] = []

    @property
    def nbytes(self) -> int:
        """Card memory taken: pages and checksums."""
        return sum(c.pages.nbytes + c.crcs.nbytes for c in self._chunks)

    @property
    def used_nbytes(self) -> int:
        """Pages in use."""
        return sum(c.runs.slots - c.runs.free_slots for c in self._chunks) * self._slot_nbytes

    def take(self, slots: int, room_nbytes: int) -> ExtentRun | None:
        """None when the card has no memory for it, or not within `room_nbytes` more than is taken."""
        for chunk in self._chunks:
            slot = chunk.runs.take(slots)
            if slot is not None:
                return self._run(chunk, slot, slots)
        added = self._add_chunk(slots, room_nbytes)
        if added is None:
            return None
        slot = added.runs.take(slots)
        assert slot is not None
        return self._run(added, slot, slots)

    def release(self, run: ExtentRun) -> None:
        run.chunk.runs.release(run.slot, run.slots)
        if run.chunk.runs.free_slots == run.chunk.runs.slots:
            self._chunks.remove(run.chunk)
            run.pages.free()
            run.crcs.free()

    def _run(self, chunk: _Chunk, slot: int, slots: int) -> ExtentRun:
        return ExtentRun(chunk, slot, slots, slot * self._slot_nbytes, slot * self._slot_crc_nbytes)

    def _add_chunk(self, least: int, room_nbytes: int) -> _Chunk | None:
        size = self._slot_nbytes + self._slot_crc_nbytes
        for slots in (max(least, min(_CHUNK_NBYTES, room_nbytes // _CHUNK_SHARE) // size), least):
            if slots * size > room_nbytes:
                continue
            pages = None
            try:
                pages = self._device.alloc(slots * self._slot_nbytes, p2p=self._p2p)
                crcs = self._device.alloc(slots * self._slot_crc_nbytes)
            except OutOfDeviceMemory:
                if pages is not None:
                    pages.free()
            else:
                chunk = _Chunk(pages, crcs, RunAllocator(slots))
                self._chunks.append(chunk)
                return chunk
        return None
