# SPDX-License-Identifier: Apache-2.0
"""One sequence of an attend call, and what each card has to do for it. Values; jobs are made in `jobs`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearkv.layout import ModelLayout
from nearkv.sequence import Part, SequenceState
from nearkv.waves import Reach, reach

Halves = NDArray[np.float16]


@dataclass(frozen=True, eq=False)
class Query:
    """One sequence of a call. q [kv_heads, tokens, group, head_size]; k and v [kv_heads, tokens, head_size] are its new
    rows, already in the write buffer but not live, or None. `index` is its place in the batch, `picks` the query tokens
    that count (None = all)."""

    state: SequenceState
    index: int
    picks: NDArray[np.intp] | None
    q: NDArray[np.float32]
    k: Halves | None
    v: Halves | None

    @property
    def tokens(self) -> int:
        return int(self.q.shape[1])

    def limits(self, layer: int) -> tuple[tuple[int, int], ...]:
        """(first, causal limit) per query token: up to its own row, or all stored rows where none are new."""
        end = self.state.tail.end[layer]
        return tuple((0, end + 1 + i if self.k is not None else end) for i in range(self.tokens))


@dataclass(frozen=True, eq=False)
class Source:
    """What one card does for one query: the KV heads of `part`, over what `reach` says and, where the card has it, the
    tail. `raw`: other cards have other tokens of the same heads, so the result is a state to be merged."""

    query: Query
    part: Part
    reach: Reach
    raw: bool


def sources(layer: int, queries: Sequence[Query], cards: int, window: int, layout: ModelLayout) -> list[list[Source]]:
    """Per card; queries that see nothing and cards that have nothing to add are left out."""
    found: list[list[Source]] = [[] for _ in range(cards)]
    for query in queries:
        limits = query.limits(layer)
        if not limits or not limits[-1][1]:
            continue
        parts = []
        for part in query.state.parts:
            what = reach(query.state, part, layer, limits[0][1], window, layout)
            if part.data.tail_slots is not None or part.data.table.count(layer) > what.skip:
                parts.append((part, what))
        split = any(part.data.tail_slots is None for part, _ in parts)
        for part, what in parts:
            found[part.number].append(Source(query, part, what, split))
    return found
