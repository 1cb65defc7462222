# SPDX-License-Identifier: Apache-2.0
"""What of a layer must come from flash, and how it is cut into waves. Pure: plans, reads nothing.

Waves are filled sequence by sequence, so that at most one sequence of a card is under way between two waves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearkv.fetches import Fetch, Wave
from nearkv.layout import ModelLayout
from nearkv.pages import extents
from nearkv.sequence import Part, SequenceState


@dataclass(frozen=True)
class Reach:
    """What one part of a sequence reads in a layer: its groups from number `skip` on.

    `absent` are those of them that are not in card memory, `fetches` what they are read by.
    """

    skip: int
    absent: tuple[int, ...]
    fetches: tuple[Fetch, ...]


def reach(
    state: SequenceState,
    part: Part,
    layer: int,
    limit: int,
    window: int,
    layout: ModelLayout,
    most_nbytes: int | None = None,
) -> Reach:
    """`limit` is the causal limit of the first query token; extents wholly before its window are not read. With
    `most_nbytes` only the first fetches, up to the one that reaches it."""
    stored, size = state.tail.stored[layer], layout.extent_tokens
    seen = max(0, limit - window) if window else 0
    before = extents(stored, size) if seen >= stored else seen // size
    # A spill that is under way has taken groups that hold nothing yet.
    skip = min(part.data.groups_of(before * size), part.data.table.count(layer))
    absent = tuple(part.data.table.absent(layer, skip))
    heads = len(part.data.heads)
    if most_nbytes is not None:
        absent = absent[: -(-most_nbytes // (heads * layout.extent_nbytes))]
    fetches = []
    for index in absent:
        group, known = part.data.groups[index], part.data.table.heads_of(layer, index)
        first = group.first % size
        fetches.append(Fetch(group, group.version, layer, first + int(known["tokens"][0]), heads, first))
    return Reach(skip, absent, tuple(fetches))


@dataclass(frozen=True)
class Share:
    """What a wave holds of list number `source`: its fetches [first, end), the first at `offset` of the buffer."""

    source: int
    first: int
    end: int
    offset: int


@dataclass(frozen=True)
class Step:
    """One wave and whose pages it holds."""

    wave: Wave
    shares: tuple[Share, ...]


def cut(sources: Sequence[Sequence[Fetch]], wave_nbytes: int, layout: ModelLayout) -> list[Step]:
    """Steps in order; each holds at most `wave_nbytes`, which a single fetch never exceeds."""
    steps: list[Step] = []
    wave: list[Fetch] = []
    shares: list[Share] = []
    nbytes = 0
    for number, fetches in enumerate(sources):
        first, offset = 0, nbytes
        for i, fetch in enumerate(fetches):
            size = fetch.nbytes(layout)
            if nbytes + size > wave_nbytes:
                if i > first:
                    shares.append(Share(number, first, i, offset))
                steps.append(Step(tuple(wave), tuple(shares)))
                wave, shares, nbytes, first, offset = [], [], 0, i, 0
            wave.append(fetch)
            nbytes += size
        if len(fetches) > first:
            shares.append(Share(number, first, len(fetches), offset))
    if wave:
        steps.append(Step(tuple(wave), tuple(shares)))
    return steps
