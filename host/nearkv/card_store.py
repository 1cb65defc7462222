# SPDX-License-Identifier: Apache-2.0
"""One card with its volume: where the rows of each sequence lie, and how they get there. Decides nothing.

Rows go to flash first and from there to card memory, as they will be read later. Index rows are `card_index`'s part.
Arrays of rows are [heads, 2 (K, V), tokens, d_pad]; `first` and `tokens` are whole units of a sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import OutOfDeviceMemory
from nearkv_driver.pagestore import aligned_buffer, page_crcs
from nearkv_driver.regmap import PAGE_BYTES
from nearkv_driver.transport import Buffer
from numpy.typing import NDArray

from nearkv.extents import ExtentPool, ExtentRun
from nearkv.layout import ModelLayout
from nearkv.pages import GroupMap, Piece, extents, pieces
from nearkv.segment_table import SegmentTable
from nearkv.tail import slot_rows
from nearkv.volume import Volume
from nearkv.volume_errors import PageMismatch
from nearkv.volume_index import Place, TailRecord

Rows = NDArray[np.float16]


@dataclass(eq=False)
class Group:
    """An extent group: in card memory, on the volume, and its checksums [layers, heads, pages, 2 (K, V)].

    While `loading` is not zero, a writer thread fills its card memory.
    """

    run: ExtentRun
    place: Place
    crcs: NDArray[np.uint32]
    loading: int = 0


@dataclass(eq=False)
class CardSequence:
    """What one card holds of one sequence. `heads` are KV heads of the model, ascending.

    With a name, `record` is its number in the volume's index, of which `committed` tokens are whole units and `tail`
    the partial unit; both are None, 0, None without a name.
    """

    heads: tuple[int, ...]
    map: GroupMap
    tail_slots: Buffer
    table: SegmentTable
    groups: list[Group] = field(default_factory=list)
    record: int | None = None
    committed: int = 0
    tail: TailRecord | None = None


class CardStore:
    """Owns the device and the volume; `close` closes both."""

    def __init__(
        self, device: NearDevice, volume: Volume, layout: ModelLayout, *, p2p: bool, spill_units: int = 1
    ) -> None:
        """`spill_units` sizes the tails: full units that start a spill."""
        self.device, self.volume, self.layout, self.p2p = device, volume, layout, p2p
        self.spill_units, self.slot_rows = spill_units, slot_rows(layout, spill_units)
        self.pool = ExtentPool(device, layout, p2p=p2p)
        self.sequences: list[CardSequence] = []
        self.payload_written_nbytes = 0
        self.read_back_nbytes = 0
        self.bounce_nbytes = 0
        self.endurance_nbytes = 0  # what the drive is rated to take in its life; 0 where that is not known
        self._staging = aligned_buffer(PAGE_BYTES)

    @property
    def dram_nbytes(self) -> int:
        return self.pool.nbytes + sum(s.tail_slots.nbytes for s in self.sequences)

    def add(self, heads: tuple[int, ...]) -> CardSequence:
        """An empty sequence without a name; takes memory for its tail."""
        layout, rows = self.layout, self.slot_rows
        nbytes = layout.layers * len(heads) * 2 * rows * layout.row_nbytes
        try:
            tail = self.device.alloc(nbytes)
        except OutOfDeviceMemory as error:
            raise self._full("the tail of a new sequence", error) from error
        table = SegmentTable(layout, len(heads), tail.address, rows)
        sequence = CardSequence(heads, GroupMap(layout, len(heads)), tail, table)
        self.sequences.append(sequence)
        return sequence

    def remove(self, sequence: CardSequence, *, keep_pages: bool) -> None:
        """Gives memory back, and the volume's space unless `keep_pages`."""
        self.sequences.remove(sequence)
        sequence.tail_slots.free()
        for group in sequence.groups:
            self.pool.release(group.run)
            if not keep_pages:
                self.volume.release(group.place, len(sequence.heads))
        if sequence.tail and not keep_pages:
            self.volume.release(sequence.tail.place, len(sequence.heads))
        sequence.groups.clear()

    def reserve(self, sequence: CardSequence, tokens: int) -> None:
        """Takes memory and space for tokens [0, tokens); what it took stays with the sequence when it raises."""
        while len(sequence.groups) < extents(tokens, self.layout.extent_tokens):
            self.attach(sequence, None)

    def attach(self, sequence: CardSequence, place: Place | None) -> Group:
        """The sequence's next group: card memory, and `place` on the volume (None takes a new one)."""
        heads = len(sequence.heads)
        try:
            run = self.pool.take(heads)
        except OutOfDeviceMemory as error:
            first = len(sequence.groups) * self.layout.extent_tokens
            raise self._full(
                f"tokens {first} to {first + self.layout.extent_tokens - 1} of a sequence", error
            ) from error
        try:
            place = place or self.volume.take(heads)
        except BaseException:
            self.pool.release(run)
            raise
        crcs = np.zeros((self.layout.layers, heads, self.layout.extent_pages, 2), np.uint32)
        group = Group(run, place, crcs)
        sequence.groups.append(group)
        return group

    def trim(self, sequence: CardSequence, groups: int) -> None:
        """Gives back all groups from number `groups` on; the index must not name them any more."""
        while len(sequence.groups) > groups:
            group = sequence.groups.pop()
            self.pool.release(group.run)
            self.volume.release(group.place, len(sequence.heads))

    def write(self, sequence: CardSequence, layer: int, first: int, rows: Rows) -> None:
        """Whole units to the volume; their checksums stay with the groups. Not durable before `Volume.sync`."""
        heads, done = len(sequence.heads), 0
        for piece in pieces(first, first + rows.shape[2], self.layout.extent_tokens):
            group = sequence.groups[piece.extent]
            block, view = self._stage((heads, 2, piece.tokens, self.layout.d_pad))
            block[...] = rows[:, :, done : done + piece.tokens]
            done += piece.tokens
            self.crcs_of(group, layer, piece)[...] = page_crcs(view).reshape(heads, 2, -1).transpose(0, 2, 1)
            start = 0
            for offset, nbytes in self.spans(sequence, layer, piece):
                self.volume.write(group.place, offset, view[start : start + nbytes])
                start += nbytes
        self.payload_written_nbytes += heads * 2 * rows.shape[2] * self.layout.head_size * 2

    def load(self, sequence: CardSequence, layer: int, first: int, tokens: int) -> None:
        """Whole units from the volume into card memory, by P2P unless the card has none."""
        for piece in pieces(first, first + tokens, self.layout.extent_tokens):
            group = sequence.groups[piece.extent]
            for offset, nbytes in self.spans(sequence, layer, piece):
                self._load(group, offset, nbytes)

    def load_group(self, sequence: CardSequence, extent: int) -> None:
        """All layers of a full extent in one read."""
        self._load(sequence.groups[extent], 0, sequence.map.nbytes)

    def upload_crcs(self, sequence: CardSequence, first: int, tokens: int, layer: int | None = None) -> None:
        """Checksums of the extents that hold these tokens: those of one layer, or all."""
        for piece in pieces(first, first + tokens, self.layout.extent_tokens):
            group = sequence.groups[piece.extent]
            crcs = group.crcs if layer is None else group.crcs[layer]
            offset = 0 if layer is None else sequence.map.crc_offset(layer, 0)
            self.device.upload(group.run.crcs, crcs.tobytes(), group.run.crc_offset + offset)

    def read(self, sequence: CardSequence, layer: int, first: int, tokens: int) -> Rows:
        """Whole units back to the host, checked; PageMismatch names the file and what was read."""
        heads, done = len(sequence.heads), 0
        out = np.empty((heads, 2, tokens, self.layout.d_pad), np.float16)
        for piece in pieces(first, first + tokens, self.layout.extent_tokens):
            group = sequence.groups[piece.extent]
            block, view = self._stage((heads, 2, piece.tokens, self.layout.d_pad))
            start = 0
            for offset, nbytes in self.spans(sequence, layer, piece):
                self.volume.read_into(group.place, offset, view[start : start + nbytes])
                start += nbytes
            found = page_crcs(view).reshape(heads, 2, -1).transpose(0, 2, 1)
            bad = np.argwhere(found != self.crcs_of(group, layer, piece))
            if len(bad):
                head, page, kind = bad[0]
                where = (
                    f"layer {layer}, KV head {sequence.heads[head]}, {'KV'[kind]}, extent {piece.extent}, page {page}"
                )
                raise PageMismatch(f"{where}: differs from its checksum", path=str(self.volume.path(group.place)))
            out[:, :, done : done + piece.tokens] = block
            done += piece.tokens
        self.read_back_nbytes += out.nbytes
        return out

    def upload_tail(self, sequence: CardSequence, layer: int, row: int, rows: Rows) -> None:
        """Rows into the card-side tail of a layer, from slot row `row` on."""
        for head in range(len(sequence.heads)):
            for address, data in zip(sequence.table.tail_addresses(layer, head, row), rows[head], strict=True):
                offset = address - sequence.tail_slots.address
                self.device.upload(sequence.tail_slots, np.ascontiguousarray(data).data.cast("B"), offset)

    def close(self) -> None:
        self.device.close()
        self.volume.close()

    def _load(self, group: Group, offset: int, nbytes: int) -> None:
        if self.p2p:
            self.volume.read_into(group.place, offset, self.p2p_view(group, offset, nbytes))
        else:
            view = self._stage((nbytes // 2,))[1]
            self.volume.read_into(group.place, offset, view)
            self.bounce(group, offset, view)

    def p2p_view(self, group: Group, offset: int, nbytes: int) -> memoryview:
        """Card memory of a group that a drive may fill."""
        return group.run.pages.view(nbytes, group.run.offset + offset)

    def bounce(self, group: Group, offset: int, pages: memoryview) -> None:
        """Pages that were read into host memory go on to card memory; counted."""
        self.device.upload(group.run.pages, pages, group.run.offset + offset)
        self.bounce_nbytes += pages.nbytes

    def placed(self, sequence: CardSequence, first: int, end: int) -> Iterator[tuple[Group, Piece]]:
        """The groups that hold tokens [first, end), with what of them lies in each."""
        for piece in pieces(first, end, self.layout.extent_tokens):
            yield sequence.groups[piece.extent], piece

    def crcs_of(self, group: Group, layer: int, piece: Piece) -> NDArray[np.uint32]:
        """View of the checksums of a piece: [heads, pages, 2 (K, V)]."""
        first = piece.first * self.layout.row_nbytes // PAGE_BYTES
        pages = piece.tokens * self.layout.row_nbytes // PAGE_BYTES
        return group.crcs[layer, :, first : first + pages]

    def spans(self, sequence: CardSequence, layer: int, piece: Piece) -> Iterator[tuple[int, int]]:
        """(offset in the group, bytes) of a layer's rows of all heads, in the order of a block of rows."""
        heads = len(sequence.heads)
        if piece.tokens == self.layout.extent_tokens:
            yield sequence.map.offset(layer, 0), heads * self.layout.extent_nbytes
            return
        for head in range(heads):
            for value in (False, True):
                offset = sequence.map.offset(layer, head, value=value, token=piece.first)
                yield offset, piece.tokens * self.layout.row_nbytes

    def _stage(self, shape: tuple[int, ...]) -> tuple[Rows, memoryview]:
        """Page-aligned memory as rows and as bytes; the same memory at every call."""
        nbytes = int(np.prod(shape)) * 2
        if len(self._staging) < nbytes:
            self._staging = aligned_buffer(nbytes)
        view = self._staging[:nbytes]
        return np.frombuffer(view, np.float16).reshape(shape), view

    def _full(self, what: str, error: OutOfDeviceMemory) -> OutOfDeviceMemory:
        return OutOfDeviceMemory(
            f"card memory is full: {what} needs {error.needed} bytes, {error.available} are available; "
            "free sequences, add cards, or give the card more memory (sw_emu: ?dram=)",
            card=self.device.url,
            bank=error.bank,
            needed=error.needed,
            available=error.available,
        )
