# SPDX-License-Identifier: Apache-2.0
"""What one card holds of one sequence: its extent groups, which forks share, and its tail. `card_store` changes it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from nearkv_driver.transport import Buffer
from numpy.typing import NDArray

from nearkv.extents import ExtentRun
from nearkv.pages import WHOLE, GroupMap, Piece, Stripe
from nearkv.segment_table import SegmentTable
from nearkv.volume_records import Place, TailRecord


@dataclass(eq=False)
class Group:
    """An extent group: on the volume, in card memory (or None), and its checksums [layers, heads, pages, 2 (K, V)].

    `written` is how many tokens each layer's pages hold; `version` rises when pages are written again. While `loading`
    is not zero, a writer thread fills its card memory.
    `first` is the first position that it holds: where its extent begins, or later for a sequence that goes its own way
    from a unit inside an extent that it shares. `users` sequences read it; tokens below `frozen` are never written
    again while there are several, and behind them only the `writer` writes.
    """

    run: ExtentRun | None
    place: Place
    crcs: NDArray[np.uint32]
    written: list[int]
    first: int = 0
    writer: CardSequence | None = None
    users: int = 1
    frozen: int = 0
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
    the partial unit; both are None, 0, None without a name. `groups` are those of `stripe`, by position; one with a
    name has one per extent. The card that has the first extents has the tail too.
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

    def pieces(self, first: int, end: int, extent_tokens: int) -> Iterator[tuple[Group, Piece]]:
        """What of tokens [first, end) lies here, cut where extents and groups begin, each with the group that holds
        it."""
        for _, piece in self.stripe.pieces(first, end, extent_tokens):
            begin = piece.extent * extent_tokens + piece.first
            last = begin + piece.tokens
            while begin < last:
                number = self.number(begin)
                limit = self.groups[number + 1].first if number + 1 < len(self.groups) else last
                tokens = min(last, limit) - begin
                yield self.groups[number], Piece(piece.extent, begin % extent_tokens, tokens)
                begin += tokens

    def number(self, position: int) -> int:
        """Number of the group that holds a position."""
        return bisect_right(self.groups, position, key=lambda group: group.first) - 1

    def groups_of(self, tokens: int) -> int:
        """How many groups hold tokens [0, tokens)."""
        return bisect_left(self.groups, tokens, key=lambda group: group.first)

    def extents(self, extent_tokens: int) -> int:
        """How many of its extents the groups reach into."""
        return self.stripe.count(self.groups[-1].first // extent_tokens + 1) if self.groups else 0
