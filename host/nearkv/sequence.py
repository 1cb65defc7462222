# SPDX-License-Identifier: Apache-2.0
"""One sequence over all cards: its write buffer and its part of each card. State; `spill` and `sessions` change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from nearkv.card_sequence import CardSequence
from nearkv.card_store import CardStore, Rows
from nearkv.tail import Tail
from nearkv.token_ids import Ids


@dataclass(frozen=True)
class SequenceInfo:
    """What `KVStore.info` tells: complete `tokens`, and how many were dropped when it was opened, with the reason."""

    sequence: int
    name: str | None
    tokens: int
    dropped_tokens: int = 0
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Part:
    """A card's share; `rows` picks its KV heads from an array whose first axis is KV heads."""

    number: int
    card: CardStore
    data: CardSequence

    @property
    def heads(self) -> list[int]:
        return list(self.data.heads)

    def rows(self, all_heads: Rows) -> Rows:
        return all_heads[self.heads]


@dataclass(eq=False)
class SequenceState:
    """`parts` are what cards hold: KV heads, and extents by turns where tokens are split. A card may have several.

    `ids`: which tokens its rows are of, as far as it was told, perhaps before they come. `guard` is called before rows
    of it become durable; what it raises keeps them from it.
    """

    id: int
    name: str | None
    tail: Tail
    parts: tuple[Part, ...]
    dropped_tokens: int = 0
    reason: str = ""
    ids: Ids = field(default_factory=list)
    guard: Callable[[], None] | None = None

    def info(self) -> SequenceInfo:
        """What is told of it."""
        return SequenceInfo(self.id, self.name, self.tokens, self.dropped_tokens, self.reason)

    def note(self, tokens: Sequence[int]) -> None:
        """The rows that come next are of these tokens."""
        del self.ids[self.tokens :]
        self.ids.extend([None] * (self.tokens - len(self.ids)))
        self.ids.extend(tokens)

    def token_ids(self) -> tuple[int | None, ...]:
        """Which tokens its rows are of, None where it was not told."""
        known = self.ids[: self.tokens]
        return (*known, *[None] * (self.tokens - len(known)))

    def before_durable(self) -> None:
        """By the thread that owns the cards, before anything of rows that are not durable yet is written."""
        if self.guard is not None:
            self.guard()

    @property
    def complete(self) -> bool:
        """Every layer holds the same tokens: no step is under way."""
        return len(set(self.tail.end)) == 1

    @property
    def tokens(self) -> int:
        """Tokens that every layer holds."""
        return min(self.tail.end)

    def set_stored(self, layer: int, tokens: int) -> None:
        """Tells each card's segment table that whole units [0, tokens) of a layer are stored."""
        for part in self.parts:
            part.data.table.set_stored(layer, tokens, part.data.groups)

    def upload_tail(self, layer: int, row: int, count: int) -> None:
        """Copies slot rows of the write buffer to the same rows of the card-side tails."""
        if count:
            rows = self.tail.at(layer, row, count)
            for part in self.parts:
                part.card.upload_tail(part.data, layer, row, part.rows(rows))

    def read(self, layer: int, first: int, end: int, unit_tokens: int) -> Rows:
        """Tokens [first, end) of a layer, all KV heads, from volumes (checked) and tail; `first` begins a unit."""
        tail = self.tail
        flash_end = min(end, tail.stored[layer])
        kv_heads, width = tail.rows.shape[1], tail.rows.shape[4]
        out = np.empty((kv_heads, 2, end - first, width), np.float16)
        if flash_end > first:
            tokens = -(-(flash_end - first) // unit_tokens) * unit_tokens
            for part in self.parts:
                got = part.card.read(part.data, layer, first, tokens)[:, :, : flash_end - first]
                extent_tokens = part.card.layout.extent_tokens
                for _, piece in part.data.stripe.pieces(first, flash_end, extent_tokens):
                    start = piece.extent * extent_tokens + piece.first - first
                    own = slice(start, start + piece.tokens)
                    out[part.heads, :, own] = got[:, :, own]
        start = max(first, tail.stored[layer])
        if end > start:
            out[:, :, start - first :] = tail.read(layer, start, end)
        return out
