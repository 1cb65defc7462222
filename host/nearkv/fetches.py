# SPDX-License-Identifier: Apache-2.0
"""What a wave reads from flash, as values, and the requests that this takes. Pure: reads nothing.

Pages of a wave lie in its staging buffer extent by extent, as they do in an extent group: heads, then K before V.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearkv.layout import ModelLayout
from nearkv.pages import GroupMap
from nearkv.volume_records import Place

if TYPE_CHECKING:
    from nearkv.card_sequence import Group


@dataclass(frozen=True)
class Fetch:
    """Tokens [first, tokens) of one layer of an extent group, all its `heads`; equal when the bytes are the same.

    `version` is that of the group when this was planned: it rises when pages of the group are written again.
    """

    group: Group
    version: int
    layer: int
    tokens: int
    heads: int
    first: int = 0

    @property
    def current(self) -> bool:
        """Whether flash still holds what was planned."""
        return self.version == self.group.version

    def nbytes(self, layout: ModelLayout) -> int:
        """Staging memory: whole extents."""
        return self.heads * layout.extent_nbytes


# What is read and computed together.
Wave = tuple[Fetch, ...]


@dataclass(frozen=True)
class Request:
    """`nbytes` bytes at `offset` from the run at `place`, into the staging buffer at `at`."""

    place: Place
    offset: int
    at: int
    nbytes: int


def requests(wave: Wave, layout: ModelLayout, most_nbytes: int) -> list[Request]:
    """The reads of a wave in order: what touches on flash and in the buffer is one, of at most `most_nbytes`."""
    merged: list[Request] = []
    for piece in _pieces(wave, layout):
        last = merged[-1] if merged else None
        if last is not None and _touch(last, piece, layout):
            merged[-1] = Request(last.place, last.offset, last.at, last.nbytes + piece.nbytes)
        else:
            merged.append(piece)
    return [part for request in merged for part in _cut(request, most_nbytes)]


def _pieces(wave: Sequence[Fetch], layout: ModelLayout) -> Iterator[Request]:
    at = 0
    for fetch in wave:
        shape, place = GroupMap(layout, fetch.heads), fetch.group.place
        start, half = shape.offset(fetch.layer, 0), layout.extent_nbytes // 2
        if fetch.tokens - fetch.first == layout.extent_tokens:
            yield Request(place, start, at, fetch.nbytes(layout))
        else:
            nbytes = (fetch.tokens - fetch.first) * layout.row_nbytes
            for inside in range(fetch.first * layout.row_nbytes, 2 * fetch.heads * half, half):
                yield Request(place, start + inside, at + inside, nbytes)
        at += fetch.nbytes(layout)


def _touch(a: Request, b: Request, layout: ModelLayout) -> bool:
    flash = [r.place.slot * layout.slot_nbytes + r.offset for r in (a, b)]
    return a.place.file == b.place.file and flash[0] + a.nbytes == flash[1] and a.at + a.nbytes == b.at


def _cut(request: Request, most_nbytes: int) -> Iterator[Request]:
    for done in range(0, request.nbytes, most_nbytes):
        nbytes = min(most_nbytes, request.nbytes - done)
        yield Request(request.place, request.offset + done, request.at + done, nbytes)
