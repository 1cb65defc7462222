# SPDX-License-Identifier: Apache-2.0
"""Where the rows of an extent group lie: offsets and ranges, pure arithmetic. Reads and writes nothing.

An extent group holds one extent (128 tokens) of every layer and every KV head that a card has of one sequence. Layers
are outermost, then heads, then K before V, then tokens. The same arithmetic serves the volume and card memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nearkv.layout import ModelLayout


@dataclass(frozen=True)
class Piece:
    """Tokens [first, first + tokens) of one extent; `extent` is its number in the sequence."""

    extent: int
    first: int
    tokens: int


def pieces(first: int, end: int, extent_tokens: int) -> Iterator[Piece]:
    """Cuts tokens [first, end) of a sequence at extent borders; `Piece.first` counts within the extent."""
    while first < end:
        extent, inside = divmod(first, extent_tokens)
        tokens = min(end - first, extent_tokens - inside)
        yield Piece(extent, inside, tokens)
        first += tokens


def whole_units(tokens: int, unit_tokens: int) -> int:
    """The largest multiple of `unit_tokens` that is not above `tokens`."""
    return tokens - tokens % unit_tokens


def extents(tokens: int, extent_tokens: int) -> int:
    """Extents that hold `tokens` tokens."""
    return -(-tokens // extent_tokens)


@dataclass(frozen=True)
class Stripe:
    """Every `of`-th extent of a sequence, from number `first` on: what one card has where tokens are split."""

    first: int = 0
    of: int = 1

    def count(self, extents: int) -> int:
        """How many of a sequence's first `extents` extents belong to it."""
        return max(0, -(-(extents - self.first) // self.of))

    def extent(self, index: int) -> int:
        """The sequence's number of the stripe's extent `index`."""
        return self.first + index * self.of

    def pieces(self, first: int, end: int, extent_tokens: int) -> Iterator[tuple[int, Piece]]:
        """What of tokens [first, end) belongs to it, with the index of the extent in the stripe."""
        for piece in pieces(first, end, extent_tokens):
            if piece.extent % self.of == self.first:
                yield piece.extent // self.of, piece


# All extents on one card.
WHOLE = Stripe()


@dataclass(frozen=True)
class GroupMap:
    """Byte offsets inside an extent group of `heads` KV heads."""

    layout: ModelLayout
    heads: int

    @property
    def nbytes(self) -> int:
        return self.heads * self.layout.slot_nbytes

    def offset(self, layer: int, head: int, *, value: bool = False, token: int = 0) -> int:
        """Of a row: `head` counts within the group, `token` within the extent; `value` picks V."""
        extent = (layer * self.heads + head) * self.layout.extent_nbytes
        return extent + (self.layout.extent_nbytes // 2 if value else 0) + token * self.layout.row_nbytes

    def spans(self, layer: int, piece: Piece) -> Iterator[tuple[int, int]]:
        """(offset in the group, bytes) of a layer's rows of all heads, in the order of a block of rows."""
        if piece.tokens == self.layout.extent_tokens:
            yield self.offset(layer, 0), self.heads * self.layout.extent_nbytes
            return
        for head in range(self.heads):
            for value in (False, True):
                offset = self.offset(layer, head, value=value, token=piece.first)
                yield offset, piece.tokens * self.layout.row_nbytes

    def crc_offset(self, layer: int, head: int) -> int:
        """Of an extent's checksums in the group's array: 8 bytes (K, V) per page."""
        return (layer * self.heads + head) * self.layout.extent_pages * 8

    def readable_tokens(self, nbytes: int) -> int:
        """Tokens (whole units) of which every layer's and head's rows lie in the first `nbytes` bytes of the group."""
        last = self.offset(self.layout.layers - 1, self.heads - 1, value=True)
        units = max(0, nbytes - last) // self.layout.unit_nbytes
        return min(units, self.layout.extent_units) * self.layout.unit_tokens
