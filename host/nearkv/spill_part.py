# SPDX-License-Identifier: Apache-2.0
"""One card's share of a spill: a copy of the rows, to flash and from there to card memory, where the extent has some.

Changes no index and no sequence.

Made and ended by the thread that owns the card; `run` is for a writer thread and touches memory and files only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from nearkv_driver.pagestore import aligned_buffer, page_crcs

from nearkv.card_sequence import CardSequence, Group
from nearkv.card_store import CardStore, Rows
from nearkv.pages import Piece
from nearkv.requests import Requests

_Cut = tuple[Group, int, Piece, Rows]


@dataclass(frozen=True, eq=False)
class Move:
    """Neighbouring pages: at `offset` of a group, and the same bytes at `start` of the copy."""

    group: Group
    offset: int
    start: int
    nbytes: int


@dataclass(frozen=True, eq=False)
class _Block:
    """Rows of one layer in one extent: all heads, K and V, at `start` of the copy."""

    group: Group
    layer: int
    piece: Piece
    start: int
    nbytes: int


class PartSpill:
    """`work` is (layer, first token, rows [heads, 2, tokens, d_pad] of whole units); the space must be reserved.

    Until `release`, the groups' card memory must stay where it is: `Group.loading` counts who fills it.
    """

    def __init__(self, card: CardStore, data: CardSequence, work: Sequence[tuple[int, int, Rows]]) -> None:
        self.card, self.data = card, data
        self._work = [(layer, first, rows.shape[2]) for layer, first, rows in work]
        cut = _cut(card, data, work)
        self.nbytes = sum(rows.nbytes for _, _, _, rows in cut)
        self.payload_nbytes = self.nbytes // card.layout.d_pad * card.layout.head_size
        self._copy = aligned_buffer(max(1, self.nbytes))
        self._blocks = self._fill(cut)
        groups = {id(block.group): block.group for block in self._blocks}
        self._groups = tuple(groups.values())
        # Card memory is looked up here: the writer asks the card for nothing.
        self._memory = {
            key: card.p2p_view(group, 0, data.map.nbytes) if card.p2p else None
            for key, group in groups.items()
            if group.run is not None
        }
        self._moves: list[Move] = []
        for group in self._groups:
            group.loading += 1

    def run(self, requests: Requests) -> None:
        """Pages to the volume and back from it, to card memory; without P2P into the copy. Not synced."""
        heads = len(self.data.heads)
        for block in self._blocks:
            crcs = page_crcs(self._copy[block.start : block.start + block.nbytes]).reshape(heads, 2, -1)
            self.card.crcs_of(block.group, block.layer, block.piece)[...] = crcs.transpose(0, 2, 1)
        self._moves = list(self._plan())
        volume = self.card.volume
        pages = [self._copy[m.start : m.start + m.nbytes] for m in self._moves]
        requests.run(
            [partial(volume.write, m.group.place, m.offset, v) for m, v in zip(self._moves, pages, strict=True)]
        )
        reads = []
        for move, view in zip(self._moves, pages, strict=True):
            if id(move.group) in self._memory:
                memory = self._memory[id(move.group)]
                into = view if memory is None else memory[move.offset : move.offset + move.nbytes]
                reads.append(partial(volume.read_into, move.group.place, move.offset, into))
        requests.run(reads)

    def deliver(self) -> None:
        """What only the card's owner does: checksums, and without P2P the pages, to card memory. May be repeated."""
        if not self.card.p2p:
            for move in self._moves:
                self.card.bounce(move.group, move.offset, self._copy[move.start : move.start + move.nbytes])
        first = min(start for _, start, _ in self._work)
        end = max(start + tokens for _, start, tokens in self._work)
        layer = self._work[0][0] if len(self._work) == 1 else None
        self.card.upload_crcs(self.data, first, end - first, layer)

    def release(self) -> None:
        """The writer has ended, and so has whoever delivers. Called once."""
        for group in self._groups:
            group.loading -= 1

    def _fill(self, cut: Sequence[_Cut]) -> list[_Block]:
        """Copies the rows in the order of the volume, so that neighbours there are neighbours here."""
        blocks, start = [], 0
        for group, layer, piece, rows in sorted(cut, key=lambda entry: (entry[2].extent, entry[1])):
            group.overwrite(layer, piece)
            blocks.append(_Block(group, layer, piece, start, rows.nbytes))
            place = self._copy[start : start + rows.nbytes]
            np.frombuffer(place, np.float16).reshape(rows.shape)[...] = rows
            start += rows.nbytes
        return blocks

    def _plan(self) -> Iterator[Move]:
        """As few as the order in the volume allows."""
        last: Move | None = None
        for block in self._blocks:
            start = block.start
            for offset, nbytes in self.data.map.spans(block.layer, block.piece):
                if last is not None and last.group is block.group and last.offset + last.nbytes == offset:
                    last = Move(block.group, last.offset, last.start, last.nbytes + nbytes)
                else:
                    if last is not None:
                        yield last
                    last = Move(block.group, offset, start, nbytes)
                start += nbytes
        if last is not None:
            yield last


def _cut(card: CardStore, data: CardSequence, work: Sequence[tuple[int, int, Rows]]) -> list[_Cut]:
    size = card.layout.extent_tokens
    cut = []
    for layer, first, rows in work:
        for group, piece in card.placed(data, first, first + rows.shape[2]):
            at = piece.extent * size + piece.first - first
            cut.append((group, layer, piece, rows[:, :, at : at + piece.tokens]))
    return cut
