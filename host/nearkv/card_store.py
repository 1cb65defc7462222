# SPDX-License-Identifier: Apache-2.0
"""One card with its volume: where the rows of each sequence lie, and how they get there. Decides nothing.

Rows go to flash first and, where they stay in card memory, from there to it. Index rows are `card_index`'s part.
Arrays of rows are [heads, 2 (K, V), tokens, d_pad]; `first` and `tokens` are whole units of a sequence. Of those a card
handles the extents of its stripe, which is all of them unless tokens are split over cards.
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

from nearkv.card_thread import CardThread
from nearkv.extents import ExtentRun
from nearkv.layout import ModelLayout
from nearkv.pages import WHOLE, GroupMap, Piece, Stripe, extents
from nearkv.residency import Residency
from nearkv.segment_table import SegmentTable
from nearkv.staging import StagingRing
from nearkv.stream_options import StreamOptions
from nearkv.tail import slot_rows
from nearkv.volume import Volume
from nearkv.volume_errors import PageMismatch
from nearkv.volume_index import Place, TailRecord
from nearkv.wave_reader import RecordRead, WaveReader

Rows = NDArray[np.float16]


@dataclass(eq=False)
class Group:
    """An extent group: on the volume, in card memory (or None), and its checksums [layers, heads, pages, 2 (K, V)].

    `written` is how many tokens each layer's pages hold; `version` rises when pages are written again. While `loading`
    is not zero, a writer thread fills its card memory.
    """

    run: ExtentRun | None
    place: Place
    crcs: NDArray[np.uint32]
    written: list[int]
    version: int = 0
    loading: int = 0

    def overwrite(self, layer: int, piece: Piece) -> None:
        """These pages are about to be written: what was read from them earlier is another version."""
        if piece.first < self.written[layer]:
            self.version += 1
        self.written[layer] = piece.first + piece.tokens


@dataclass(eq=False)
class CardSequence:
    """What one card holds of one sequence. `heads` are KV heads of the model, ascending.

    With a name, `record` is its number in the volume's index, of which `committed` tokens are whole units and `tail`
    the partial unit; both are None, 0, None without a name. `groups` are those of `stripe`; the card that has the first
    extents has the tail too.
    """

    heads: tuple[int, ...]
    map: GroupMap
    tail_slots: Buffer | None
    table: SegmentTable
    stripe: Stripe = WHOLE
    groups: list[Group] = field(default_factory=list)
    record: int | None = None
    committed: int = 0
    tail: TailRecord | None = None


class CardStore:
    """Owns the device and the volume; `close` closes both."""

    def __init__(
        self,
        device: NearDevice,
        volume: Volume,
        layout: ModelLayout,
        options: StreamOptions,
        *,
        p2p: bool,
        spill_units: int = 1,
        record_read: RecordRead | None = None,
    ) -> None:
        """`spill_units` sizes the tails: full units that start a spill."""
        self.spill_units, self.slot_rows = spill_units, slot_rows(layout, spill_units)
        self.device, self.volume, self.layout, self.options, self.p2p = device, volume, layout, options, p2p
        self.thread = CardThread(f"card {device.url}")
        limit = options.resident_nbytes
        self.residency = Residency(device, layout, self._evicted, p2p=p2p, limit_nbytes=limit)
        self.ring = StagingRing(device, options, p2p=p2p)
        self.reader = WaveReader(volume, self.ring, layout, options, record=record_read)
        self.sequences: list[CardSequence] = []
        self.payload_written_nbytes = 0
        self.read_back_nbytes = 0
        self.bounce_nbytes = 0
        self.endurance_nbytes = 0  # what the drive is rated to take in its life; 0 where that is not known
        self._staging = aligned_buffer(PAGE_BYTES)

    @property
    def dram_nbytes(self) -> int:
        return self.residency.nbytes + self._other_nbytes()

    def add(self, heads: tuple[int, ...], stripe: Stripe = WHOLE) -> CardSequence:
        """An empty sequence without a name; takes memory for its tail."""
        layout, rows, tail = self.layout, self.slot_rows, None
        if not stripe.first:
            nbytes = layout.layers * len(heads) * 2 * rows * layout.row_nbytes
            try:
                tail = self.residency.before_extents(lambda: self.device.alloc(nbytes), self._other_nbytes)
            except OutOfDeviceMemory as error:
                raise self._full("the tail of a new sequence", error) from error
        table = SegmentTable(layout, len(heads), tail.address if tail else 0, rows, stripe)
        sequence = CardSequence(heads, GroupMap(layout, len(heads)), tail, table, stripe)
        self.sequences.append(sequence)
        return sequence

    def remove(self, sequence: CardSequence, *, keep_pages: bool) -> None:
        """Gives memory back, and the volume's space unless `keep_pages`."""
        self.sequences.remove(sequence)
        if sequence.tail_slots is not None:
            sequence.tail_slots.free()
        for group in sequence.groups:
            self._leave(group)
            if not keep_pages:
                self.volume.release(group.place, len(sequence.heads))
        if sequence.tail and not keep_pages:
            self.volume.release(sequence.tail.place, len(sequence.heads))
        sequence.groups.clear()

    def reserve(self, sequence: CardSequence, tokens: int) -> None:
        """Takes space, and memory if there is some, for tokens [0, tokens); what it took stays when it raises."""
        while len(sequence.groups) < sequence.stripe.count(extents(tokens, self.layout.extent_tokens)):
            self.attach(sequence, None)

    def attach(self, sequence: CardSequence, place: Place | None) -> Group:
        """The sequence's next group: `place` on the volume (None takes a new one), and card memory if there is some."""
        heads, known = len(sequence.heads), place is not None
        place = place or self.volume.take(heads)
        run = self.residency.take(heads, self._other_nbytes())
        crcs = np.zeros((self.layout.layers, heads, self.layout.extent_pages, 2), np.uint32)
        group = Group(run, place, crcs, [self.layout.extent_tokens if known else 0] * self.layout.layers)
        sequence.groups.append(group)
        return group

    def trim(self, sequence: CardSequence, groups: int) -> None:
        """Gives back all groups from number `groups` on; the index must not name them any more."""
        while len(sequence.groups) > groups:
            group = sequence.groups.pop()
            self._leave(group)
            self.volume.release(group.place, len(sequence.heads))

    def write(self, sequence: CardSequence, layer: int, first: int, rows: Rows) -> None:
        """Whole units to the volume; their checksums stay with the groups. Not durable before `Volume.sync`."""
        heads, tokens = len(sequence.heads), 0
        for group, piece in self.placed(sequence, first, first + rows.shape[2]):
            block, view = self._stage((heads, 2, piece.tokens, self.layout.d_pad))
            at = piece.extent * self.layout.extent_tokens + piece.first - first
            block[...] = rows[:, :, at : at + piece.tokens]
            tokens += piece.tokens
            group.overwrite(layer, piece)
            self.crcs_of(group, layer, piece)[...] = page_crcs(view).reshape(heads, 2, -1).transpose(0, 2, 1)
            start = 0
            for offset, nbytes in self.spans(sequence, layer, piece):
                self.volume.write(group.place, offset, view[start : start + nbytes])
                start += nbytes
        self.payload_written_nbytes += heads * 2 * tokens * self.layout.head_size * 2

    def load(self, sequence: CardSequence, layer: int, first: int, tokens: int) -> None:
        """Whole units of extents that have card memory, from the volume into it, by P2P unless the card has none."""
        for group, piece in self.placed(sequence, first, first + tokens):
            for offset, nbytes in self.spans(sequence, layer, piece):
                self._load(group, offset, nbytes)

    def load_group(self, sequence: CardSequence, extent: int) -> None:
        """All layers of a full extent in one read."""
        self._load(sequence.groups[extent], 0, sequence.map.nbytes)

    def upload_crcs(self, sequence: CardSequence, first: int, tokens: int, layer: int | None = None) -> None:
        """Checksums of the extents that hold these tokens: those of one layer, or all."""
        for group, _ in self.placed(sequence, first, first + tokens):
            if group.run is None:
                continue
            crcs = group.crcs if layer is None else group.crcs[layer]
            offset = 0 if layer is None else sequence.map.crc_offset(layer, 0)
            self.device.upload(group.run.crcs, crcs.tobytes(), group.run.crc_offset + offset)

    def read(self, sequence: CardSequence, layer: int, first: int, tokens: int) -> Rows:
        """Whole units back to the host, checked; PageMismatch names the file and what was read. Zeros for extents that
        other cards have."""
        heads = len(sequence.heads)
        out = np.zeros((heads, 2, tokens, self.layout.d_pad), np.float16)
        for group, piece in self.placed(sequence, first, first + tokens):
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
            at = piece.extent * self.layout.extent_tokens + piece.first - first
            out[:, :, at : at + piece.tokens] = block
            self.read_back_nbytes += block.nbytes
        return out

    def upload_tail(self, sequence: CardSequence, layer: int, row: int, rows: Rows) -> None:
        """Rows into the card-side tail of a layer, from slot row `row` on, if this card has it."""
        if sequence.tail_slots is None:
            return
        for head in range(len(sequence.heads)):
            for address, data in zip(sequence.table.tail_addresses(layer, head, row), rows[head], strict=True):
                offset = address - sequence.tail_slots.address
                self.device.upload(sequence.tail_slots, np.ascontiguousarray(data).data.cast("B"), offset)

    def stop(self) -> None:
        """Ends reads and the card's thread; may be called again."""
        self.reader.close()
        self.thread.close()

    def close(self) -> None:
        self.stop()
        self.device.close()
        self.volume.close()

    def _load(self, group: Group, offset: int, nbytes: int) -> None:
        if group.run is None:
            return
        if self.p2p:
            self.volume.read_into(group.place, offset, self.p2p_view(group, offset, nbytes))
        else:
            view = self._stage((nbytes // 2,))[1]
            self.volume.read_into(group.place, offset, view)
            self.bounce(group, offset, view)

    def p2p_view(self, group: Group, offset: int, nbytes: int) -> memoryview:
        """Card memory of a group that a drive may fill; it must have some."""
        assert group.run is not None
        return group.run.pages.view(nbytes, group.run.offset + offset)

    def bounce(self, group: Group, offset: int, pages: memoryview) -> None:
        """Pages that were read into host memory go on to card memory, where the group has some; counted."""
        if group.run is not None:
            self.device.upload(group.run.pages, pages, group.run.offset + offset)
            self.bounce_nbytes += pages.nbytes

    def placed(self, sequence: CardSequence, first: int, end: int) -> Iterator[tuple[Group, Piece]]:
        """The groups of this card that hold tokens [first, end), with what of them lies in each."""
        for index, piece in sequence.stripe.pieces(first, end, self.layout.extent_tokens):
            yield sequence.groups[index], piece

    def crcs_of(self, group: Group, layer: int, piece: Piece) -> NDArray[np.uint32]:
        """View of the checksums of a piece: [heads, pages, 2 (K, V)]."""
        first = piece.first * self.layout.row_nbytes // PAGE_BYTES
        pages = piece.tokens * self.layout.row_nbytes // PAGE_BYTES
        return group.crcs[layer, :, first : first + pages]

    def _leave(self, group: Group) -> None:
        if group.run is not None:
            self.residency.release(group.run)
            group.run = None

    def _evicted(self, run: ExtentRun) -> bool:
        """Forgets the memory of a group; False, and nothing, while a writer fills it."""
        for sequence in self.sequences:
            for index, group in enumerate(sequence.groups):
                if group.run is run:
                    if group.loading:
                        return False
                    group.run = None
                    sequence.table.evict(index)
        return True

    def _other_nbytes(self) -> int:
        """Card memory beside extents."""
        return self.ring.nbytes + sum(s.tail_slots.nbytes for s in self.sequences if s.tail_slots is not None)

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
            f"card memory is full: {what} needs {error.needed} bytes in one piece, {error.available} are free; "
            "free sequences, add cards, or give the card more memory (sw_emu: ?dram=)",
            card=self.device.url,
            bank=error.bank,
            needed=error.needed,
            available=error.available,
        )
