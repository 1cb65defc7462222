# SPDX-License-Identifier: Apache-2.0
"""How rows of a sequence reach flash: reserve, write, load into card memory, make durable, then forget the RAM copy.

Everything that can fail happens before the sequence's state changes. What a failure leaves (pages beyond the stored
tokens, rows beyond the live ones) nobody refers to, and the next attempt writes it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nearkv import card_index
from nearkv.layout import ModelLayout
from nearkv.pages import whole_units
from nearkv.sequence import Part, SequenceState
from nearkv.volume_records import TailRecord

_EXTENTS_AT_ONCE = 8


def reserve(needs: Iterable[tuple[SequenceState, int]]) -> None:
    """Card memory and volume space for tokens [0, n) of each sequence: all of it, or nothing and an error."""
    taken: list[tuple[Part, int]] = []
    try:
        for state, tokens in needs:
            for part in state.parts:
                taken.append((part, len(part.data.groups)))
                part.card.reserve(part.data, tokens)
    except BaseException:
        for part, groups in reversed(taken):
            part.card.trim(part.data, groups)
        raise


def write_units(state: SequenceState, layer: int, first: int, rows: NDArray[np.float16]) -> None:
    """Whole units, [kv_heads, 2, tokens, d_pad], to flash and from there to the cards. Changes no state."""
    for part in state.parts:
        part.card.write(part.data, layer, first, part.rows(rows))
        part.card.load(part.data, layer, first, rows.shape[2])


def upload_crcs(state: SequenceState, first: int, end: int, layer: int | None = None) -> None:
    """Checksums of the stored tokens [first, end) to the cards, of one layer or of all."""
    if end > first:
        for part in state.parts:
            part.card.upload_crcs(part.data, first, end - first, layer)


def commit(states: Sequence[tuple[SequenceState, int]]) -> None:
    """Makes whole units [0, n) of each sequence durable on all cards. A failure takes back what the call committed."""
    done: list[tuple[Part, int, TailRecord | None]] = []
    try:
        for state, tokens in states:
            for part in state.parts:
                before = (part, part.data.committed, part.data.tail)
                card_index.commit(part.card, part.data, tokens, state.ids)
                done.append(before)
    except BaseException:
        for part, committed, tail in done:
            card_index.restore(part.card, part.data, committed, tail)
        raise


def spill(state: SequenceState, layer: int, layout: ModelLayout) -> None:
    """Writes the full units that the tail holds: of all layers when no step is under way, else of this one.

    Called before rows are added, so that a failure (a full disk, a full card) concerns no row of the call: stored rows
    stay in RAM and visible, and the same call can be made again.
    """
    unit = layout.unit_tokens
    if state.tail.live(layer) < unit:
        return
    state.before_durable()
    layers = range(layout.layers) if state.complete else [layer]
    target = {i: whole_units(state.tail.end[i], unit) for i in layers if state.tail.live(i) >= unit}
    reserve([(state, max(target.values()))])
    for i, end in target.items():
        write_units(state, i, state.tail.stored[i], state.tail.read(i, state.tail.stored[i], end))
    first = min(state.tail.stored[i] for i in target)
    upload_crcs(state, first, max(target.values()), None if len(layers) > 1 else layer)
    stored = [target.get(i, s) for i, s in enumerate(state.tail.stored)]
    commit([(state, min(stored))])
    for i, end in target.items():
        state.tail.settle(i, end, state.tail.end[i])
        state.set_stored(i, end)


def make_room(state: SequenceState, layer: int, count: int) -> None:
    """Moves the live rows to the slot's start when `count` more do not fit behind them."""
    tail = state.tail
    if tail.fits(layer, count):
        return
    stored, end = tail.stored[layer], tail.end[layer]
    rows = tail.read(layer, stored, end)
    tail.put(layer, 0, rows[:, 0], rows[:, 1])
    state.upload_tail(layer, 0, end - stored)
    tail.settle(layer, stored, end, 0)


def append(
    layer: int,
    work: Sequence[tuple[SequenceState, NDArray[np.float16], NDArray[np.float16]]],
    layout: ModelLayout,
) -> None:
    """Adds k and v [kv_heads, n, head_size] to each sequence: all of them, or none and an error."""
    unit = layout.unit_tokens
    for state, _, _ in work:
        spill(state, layer, layout)
    ends = [state.tail.end[layer] + k.shape[1] for state, k, _ in work]
    for (state, _, _), end in zip(work, ends, strict=True):
        if whole_units(end, unit) > state.tail.stored[layer]:
            state.before_durable()
    reserve((state, whole_units(end, unit)) for (state, _, _), end in zip(work, ends, strict=True))
    settled, commits = [], []
    for (state, k, v), end in zip(work, ends, strict=True):
        tail = state.tail
        first, stored = tail.stored[layer], max(tail.stored[layer], whole_units(end, unit))
        if stored == first:
            make_room(state, layer, k.shape[1])
            row, rest = tail.row(layer, tail.end[layer]), k.shape[1]
        else:
            _write(state, layer, k, v, stored, layout)
            upload_crcs(state, first, stored, layer)
            rest = end - stored
            row = tail.spare(layer, rest)
        tail.put(layer, row, k[:, k.shape[1] - rest :], v[:, k.shape[1] - rest :])
        state.upload_tail(layer, row, rest)
        settled.append((state, stored, end, row if stored > first else None))
        others = [s for i, s in enumerate(tail.stored) if i != layer]
        commits.append((state, min([stored, *others])))
    commit(commits)
    for state, stored, end, place in settled:
        state.tail.settle(layer, stored, end, place)
        state.set_stored(layer, stored)


def _write(
    state: SequenceState,
    layer: int,
    k: NDArray[np.float16],
    v: NDArray[np.float16],
    stored: int,
    layout: ModelLayout,
) -> None:
    """Units up to `stored`, from the tail and then from k and v; few extents at a time, so that RAM is bounded."""
    tail = state.tail
    first, end = tail.stored[layer], tail.end[layer]
    step = _EXTENTS_AT_ONCE * layout.extent_tokens
    while first < stored:
        last = min(stored, (first // layout.extent_tokens) * layout.extent_tokens + step)
        rows = np.zeros((layout.kv_heads, 2, last - first, layout.d_pad), np.float16)
        old = max(0, min(end, last) - first)
        if old:
            rows[:, :, :old] = tail.read(layer, first, first + old)
        new = slice(max(0, first - end), last - end)
        rows[:, 0, old:, : layout.head_size] = k[:, new]
        rows[:, 1, old:, : layout.head_size] = v[:, new]
        write_units(state, layer, first, rows)
        first = last
