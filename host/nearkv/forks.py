# SPDX-License-Identifier: Apache-2.0
"""A sequence that begins as a copy of another one: shared extents, copied tail. Index work; no page is written twice.

Whole units of the parent are spilled first, so that they are shared and not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nearkv import spill
from nearkv.errors import UserError
from nearkv.group_sharing import inherit
from nearkv.layout import ModelLayout
from nearkv.sequence import Part, SequenceState
from nearkv.tail import Tail, WriteBuffer


def fork(parent: SequenceState, sequence: int, layout: ModelLayout, buffer: WriteBuffer) -> SequenceState:
    """A sequence without a name, known as `sequence`, that holds what `parent` holds."""
    if not parent.complete:
        few, most = min(parent.tail.end), max(parent.tail.end)
        raise UserError(
            f"sequence {parent.id} is in the middle of a step: its layers hold {few} to {most} tokens; "
            "fork it when all hold the same"
        )
    for layer in range(layout.layers):
        spill.spill(parent, layer, layout)
    parts: list[Part] = []
    tail = Tail(layout, buffer)
    child = SequenceState(sequence, None, tail, ())
    try:
        for part in parent.parts:
            data = part.card.add(part.data.heads, part.data.stripe)
            parts.append(Part(part.number, part.card, data))
            inherit(part.data, data, layout.extent_tokens)
        child.parts = tuple(parts)
        for layer in range(layout.layers):
            first, end = parent.tail.stored[layer], parent.tail.end[layer]
            rows = parent.tail.read(layer, first, end)
            tail.put(layer, 0, rows[:, 0], rows[:, 1])
            tail.settle(layer, first, end, 0)
            child.upload_tail(layer, 0, end - first)
    except BaseException:
        tail.close()
        for part in parts:
            part.card.remove(part.data, keep_pages=False)
        raise
    return child


def select(
    ids: Sequence[int],
    order: Sequence[int],
    fork_one: Callable[[int], int],
    flush: Callable[[Sequence[int]], None],
    release: Callable[[int], None],
) -> tuple[int, ...]:
    """The batch with rows `order` of the batch `ids`. Forks are made, and rows that go are flushed, before anything is
    released, so a failure changes nothing."""
    outside = [row for row in order if not 0 <= row < len(ids)]
    if outside:
        raise UserError(f"row {outside[0]} does not exist; the batch has {len(ids)} rows")
    chosen: list[int] = []
    made: list[int] = []
    seen: set[int] = set()
    try:
        for row in order:
            if row in seen:
                made.append(fork_one(ids[row]))
            chosen.append(made[-1] if row in seen else ids[row])
            seen.add(row)
        gone = [sequence for row, sequence in enumerate(ids) if row not in seen]
        flush(gone)
    except BaseException:
        for child in made:
            release(child)
        raise
    for sequence in gone:
        release(sequence)
    return tuple(chosen)
