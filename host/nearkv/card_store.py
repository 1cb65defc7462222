# SPDX-License-Identifier: Apache-2.0
"""One card with its volume: where the rows of each sequence lie, and how they get there. Decides nothing.

Rows go to flash first and, where they stay in card memory, from there to it. Index rows are `card_index`'s part.
Arrays of rows are [heads, 2 (K, V), tokens, d_pad]; `first` and `tokens` are whole units of a sequence. Of those a card
handles the extents of its stripe, which is all of them unless tokens are split over cards.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import OutOfDeviceMemory
from nearkv_driver.pagestore import aligned_buffer, page_crcs
from nearkv_driver.regmap import PAGE_BYTES
from nearkv_driver.work_threads import WorkThreads
from numpy.typing import NDArray

from nearkv.card_sequence import CardSequence, Group
from nearkv.extents import ExtentRun
from nearkv.group_sharing import may_write
from nearkv.layout import ModelLayout
from nearkv.pages import WHOLE, GroupMap, Piece, Stripe, extents
from nearkv.residency import Residency
from nearkv.segment_table import SegmentTable
from nearkv.staging import StagingRing
from nearkv.stream_options import StreamOptions
from nearkv.tail import slot_rows
from nearkv.volume import Volume
from nearkv.volume_errors import PageMismatch
from nearkv.volume_records import Place
from nearkv.wave_reader import RecordRead, WaveReader

Rows = NDArray[np.float16]


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
        self.thread = WorkThreads(f"card {device.url}")
        limit = options.resident_nbytes
        self.residency = Residency(device, layout, self._evicted, p2p=p2p, limit_nbytes=limit)
        self.ring = StagingRing(device, options, p2p=p2p)
        self.reader = WaveReader(volume, self.ring, layout, options, record=record_read)
        self.sequences: list[CardSequence] = []
        self.payload_written_nbytes = self.read_back_nbytes = self.bounce_nbytes = 0
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
                needed, available = error.needed, error.available
                raise OutOfDeviceMemory(
                    f"card memory is full: the tail of a new sequence needs {needed} bytes in one piece, {available} "
                    "are free; free sequences, add cards, or give an emulated card more memory by dram= in its URL",
                    card=self.device.url,
                    bank=error.bank,
                    needed=needed,
                    available=available,
                ) from error
        table = SegmentTable(layout, len(heads), tail.address if tail else 0, rows)
        sequence = CardSequence(heads, GroupMap(layout, len(heads)), tail, table, stripe)
        self.sequences.append(sequence)
        return sequence

    def remove(self, sequence: CardSequence, *, keep_pages: bool) -> None:
        """Gives memory back, and the volume's space unless `keep_pages`."""
        self.sequences.remove(sequence)
        if sequence.tail_slots is not None:
            sequence.tail_slots.free()
        for group in sequence.groups:
            self._leave(sequence, group, keep_pages=keep_pages)
        if sequence.tail and not keep_pages:
            self.volume.release(sequence.tail.place, len(sequence.heads))
        sequence.groups.clear()

    def reserve(self, sequence: CardSequence, tokens: int) -> None:
        """Takes space, and memory if there is some, for tokens [0, tokens); what it took stays when it raises.

        Where others read the extent that the next unit belongs to, the unit goes to a group of the sequence's own.
        """
        stored, size = sequence.table.stored, self.layout.extent_tokens
        if tokens > stored and sequence.groups and stored // size == sequence.groups[-1].first // size:
            group = sequence.groups[-1]
            if group.first <= stored and not may_write(self.volume, sequence, group, stored):
                self.attach(sequence, None, stored)
            elif group.first <= stored:
                group.writer = sequence
        while sequence.extents(size) < sequence.stripe.count(extents(tokens, size)):
            self.attach(sequence, None)

    def attach(self, sequence: CardSequence, place: Place | None, first: int | None = None) -> Group:
        """The sequence's next group, from position `first` on (None: its next extent).

        At `place` on the volume (None takes one), and in card memory if there is some.
        """
        heads, known, size = len(sequence.heads), place is not None, self.layout.extent_tokens
        first = sequence.stripe.extent(sequence.extents(size)) * size if first is None else first
        place = place or self.volume.take(heads)
        run = self.residency.take(heads, self._other_nbytes())
        crcs = np.zeros((self.layout.layers, heads, self.layout.extent_pages, 2), np.uint32)
        group = Group(run, place, crcs, [size if known else 0] * self.layout.layers, first, sequence)
        sequence.groups.append(group)
        return group

    def trim(self, sequence: CardSequence, groups: int) -> None:
        """Gives back all groups from number `groups` on; the index must not name them any more."""
        while len(sequence.groups) > groups:
            self._leave(sequence, sequence.groups.pop(), keep_pages=False)

    def replace(self, sequence: CardSequence, number: int, place: Place) -> None:
        """Group `number` lies at `place` from now on, where the caller has written its bytes; card memory gets them, if
        there is some. What it shared stays with the others."""
        old = sequence.groups[number]
        run = self.residency.take(len(sequence.heads), self._other_nbytes())
        group = Group(run, place, old.crcs.copy(), list(old.written), old.first, sequence)
        try:
            self._load(group, 0, sequence.map.nbytes)
            if run is not None:
                self.device.upload(run.crcs, group.crcs.tobytes(), run.crc_offset)
        except BaseException:
            if run is not None:
                self.residency.release(run)
            raise
        sequence.groups[number] = group
        sequence.table.rebuild(sequence.groups)
        self._leave(sequence, old, keep_pages=False)

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
            for offset, nbytes in sequence.map.spans(layer, piece):
                self.volume.write(group.place, offset, view[start : start + nbytes])
                start += nbytes
        self.payload_written_nbytes += heads * 2 * tokens * self.layout.head_size * 2

    def load(self, sequence: CardSequence, layer: int, first: int, tokens: int) -> None:
        """Whole units of extents that have card memory, from the volume into it, by P2P unless the card has none."""
        for group, piece in self.placed(sequence, first, first + tokens):
            for offset, nbytes in sequence.map.spans(layer, piece):
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
            for offset, nbytes in sequence.map.spans(layer, piece):
                self.volume.read_into(group.place, offset, view[start : start + nbytes])
                start += nbytes
            found = page_crcs(view).reshape(heads, 2, -1).transpose(0, 2, 1)
            bad = np.argwhere(found != self.crcs_of(group, layer, piece))
            if len(bad):
                head, page, kind = bad[0]
                page += piece.first // self.layout.unit_tokens * self.layout.unit_pages
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
        self.thread.close(wait=False)  # what the card does may never end

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
        return sequence.pieces(first, end, self.layout.extent_tokens)

    def crcs_of(self, group: Group, layer: int, piece: Piece) -> NDArray[np.uint32]:
        """View of the checksums of a piece: [heads, pages, 2 (K, V)]."""
        first = piece.first * self.layout.row_nbytes // PAGE_BYTES
        pages = piece.tokens * self.layout.row_nbytes // PAGE_BYTES
        return group.crcs[layer, :, first : first + pages]

    def _leave(self, sequence: CardSequence, group: Group, *, keep_pages: bool) -> None:
        """The sequence does not use the group any more; `keep_pages`: the index still names its place."""
        group.users -= 1
        if group.writer is sequence:
            group.writer = None
        if group.users:
            if keep_pages:
                self.volume.hold(group.place)
            return
        if group.run is not None:
            self.residency.release(group.run)
            group.run = None
        if not keep_pages:
            self.volume.release(group.place, len(sequence.heads))

    def _evicted(self, run: ExtentRun) -> bool:
        """Forgets the memory of a group; False, and nothing, while a writer fills it."""
        users = [(s, index) for s in self.sequences for index, group in enumerate(s.groups) if group.run is run]
        if any(sequence.groups[index].loading for sequence, index in users):
            return False
        for sequence, index in users:
            sequence.groups[index].run = None
            sequence.table.evict(index)
        return True

    def _other_nbytes(self) -> int:
        """Card memory beside extents."""
        return self.ring.nbytes + sum(s.tail_slots.nbytes for s in self.sequences if s.tail_slots is not None)

    def _stage(self, shape: tuple[int, ...]) -> tuple[Rows, memoryview]:
        """Page-aligned memory as rows and as bytes; the same memory at every call."""
        nbytes = int(np.prod(shape)) * 2
        if len(self._staging) < nbytes:
            self._staging = aligned_buffer(nbytes)
        view = self._staging[:nbytes]
        return np.frombuffer(view, np.float16).reshape(shape), view
