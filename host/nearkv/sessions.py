# SPDX-License-Identifier: Apache-2.0
"""What outlives a call: flush, crop, and opening a named sequence again from its volumes. Works on one sequence.

A sequence without a name has no index rows; for it, only crop does something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack

import numpy as np
from nearkv_driver.errors import DriverError, StorageError
from numpy.typing import NDArray

from nearkv import card_index, copies, spill
from nearkv.card_sequence import CardSequence
from nearkv.card_store import CardStore
from nearkv.layout import ModelLayout
from nearkv.pages import extents, whole_units
from nearkv.sequence import Part, SequenceState
from nearkv.tail import Tail, WriteBuffer
from nearkv.token_ids import agreed
from nearkv.volume_errors import NotStored, PageMismatch, SequenceIncomplete, VolumeDamaged
from nearkv.volume_records import SequenceRecord


def flush(state: SequenceState, layout: ModelLayout) -> None:
    """Every complete token of a named sequence is durable when this returns."""
    if state.name is None:
        return
    for layer in range(layout.layers):
        spill.spill(state, layer, layout)
    units = min(min(state.tail.stored), whole_units(state.tokens, layout.unit_tokens))
    spill.commit([(state, units)])
    first, end = units, state.tokens
    if end == first or all(_has_tail(part.data, first, end) for part in state.parts):
        return
    state.before_durable()
    rows = _layers(state, range(layout.layers), first, end, layout)
    for part in state.parts:
        if not _has_tail(part.data, first, end):
            card_index.write_tail(part.card, part.data, first, rows[:, part.heads], state.ids)


def durable(state: SequenceState) -> int:
    """Tokens of a named sequence that its volumes have whatever happens."""
    counts = []
    for part in state.parts:
        data = part.data
        follows = data.tail is not None and data.tail.first == data.committed
        counts.append(data.committed + (data.tail.tokens if data.tail is not None and follows else 0))
    return min(counts)


def flush_all(states: Iterable[SequenceState], layout: ModelLayout, settle: Callable[[SequenceState], None]) -> None:
    """`settle`, which ends the spill under way, and `flush` of each; one that fails does not keep the others from it.
    NotStored tells what is missing."""
    errors: list[DriverError] = []
    lost = []
    for state in states:
        try:
            settle(state)
            flush(state, layout)
        except DriverError as error:
            if state.name is None:  # it has nothing to store
                continue
            errors.append(error)
            lost.append((state.name, durable(state), state.tokens))
    if errors:
        what = ", ".join(f"tokens {first} to {end - 1} of sequence {name!r}" for name, first, end in lost)
        first = errors[0]
        raise NotStored(
            f"not stored: {what}: {first}",
            path=first.path if isinstance(first, StorageError) else first.card,
            lost=tuple(lost),
            errno_name=first.errno_name if isinstance(first, StorageError) else "",
        ) from first


def _has_tail(data: CardSequence, first: int, end: int) -> bool:
    return data.tail is not None and (data.tail.first, data.tail.tokens) == (first, end - first)


def crop(state: SequenceState, length: int, layout: ModelLayout) -> None:
    """Keeps tokens [0, length) of every layer. Rows of a unit that is cut come back from flash to the tail."""
    tail = state.tail
    unit = whole_units(length, layout.unit_tokens)
    cut = [layer for layer in range(layout.layers) if tail.stored[layer] > length]
    rows = _layers(state, cut, unit, length, layout)
    # Beside the live rows: what follows may fail, and then those must be what they were.
    places = [_put_beside(state, layer, rows[i]) for i, layer in enumerate(cut)]
    if cut:
        for part in state.parts:
            card_index.own_group(part.card, part.data, unit)
    kept = rows if len(cut) == layout.layers else None
    _truncate(state, length, kept)
    del state.ids[length:]
    for layer in range(layout.layers):
        if layer not in cut:
            tail.settle(layer, tail.stored[layer], min(tail.end[layer], length))
    for i, layer in enumerate(cut):
        tail.settle(layer, unit, length, places[i])
        state.set_stored(layer, unit)
    for part in state.parts:
        part.card.trim(part.data, part.data.groups_of(max(tail.stored)))


def _truncate(state: SequenceState, length: int, rows: NDArray[np.float16] | None) -> None:
    """`card_index.truncate` on every card, or on none and an error: a card that is done takes back what it did."""
    undo: list[Callable[[], None]] = []
    try:
        for part in state.parts:
            undo.append(card_index.memento(part.card, part.data))
            own = None if rows is None else rows[:, part.heads]
            card_index.truncate(part.card, part.data, length, own, state.ids)
    except BaseException:
        for back in undo:
            back()
        raise


def _put_beside(state: SequenceState, layer: int, rows: NDArray[np.float16]) -> int:
    """Rows of less than a unit, [kv_heads, 2, tokens, d_pad], into the tail and those on the cards; where they lie."""
    row = state.tail.spare(layer, rows.shape[2])
    state.tail.put(layer, row, rows[:, 0], rows[:, 1])
    state.upload_tail(layer, row, rows.shape[2])
    return row


def _layers(
    state: SequenceState, layers: Sequence[int], first: int, end: int, layout: ModelLayout
) -> NDArray[np.float16]:
    """Tokens [first, end) of some layers: [layers, kv_heads, 2, tokens, d_pad]."""
    out = np.zeros((len(layers), layout.kv_heads, 2, end - first, layout.d_pad), np.float16)
    if end > first:
        for i, layer in enumerate(layers):
            out[i] = state.read(layer, first, end, layout.unit_tokens)
    return out


def load(
    sequence: int, name: str, cards: Sequence[CardStore], layout: ModelLayout, buffer: WriteBuffer
) -> SequenceState:
    """Opens a named sequence: pages go to the cards by P2P, the partial unit to RAM and to the card-side tails.

    The last unit and the partial one are checked here, every other page by the kernel when it reads it. When cards or
    pages disagree, the longest prefix that all cards have is kept; `dropped_tokens` and `reason` say what was lost.
    KeyError when no volume knows the name.
    """
    found = [(i, card, card.volume.index.find(name)) for i, card in enumerate(cards)]
    records = [(i, card, record) for i, card, record in found if record is not None]
    if not records:
        raise KeyError(f"no sequence is named {name!r}")
    if sorted(head for _, _, record in records for head in record.heads) != list(range(layout.kv_heads)):
        heads = ", ".join(f"{card.volume.folder}: {list(record.heads)}" for _, card, record in records)
        raise SequenceIncomplete(
            f"sequence {name!r} lacks KV heads; found {heads}", path=str(records[0][1].volume.folder)
        )
    parts: list[Part] = []
    with ExitStack() as undo:
        length, reasons = max(record.tokens for _, _, record in records), []
        most = length
        for i, card, record in records:
            data = card.add(record.heads)
            undo.callback(card.remove, data, keep_pages=True)
            parts.append(Part(i, card, data))
            tokens, reason = _attach(card, data, record, layout)
            length = min(length, tokens)
            if reason:
                reasons.append(reason)
        ids = agreed([record.ids for _, _, record in records])
        if len(ids) < min(record.tokens for _, _, record in records):
            reasons.append(f"the cards hold rows of different tokens from {len(ids)} on")
        length = min(length, len(ids))
        tail = Tail(layout, buffer)
        undo.callback(tail.close)
        state = SequenceState(sequence, name, tail, tuple(parts))
        state.ids = ids[:length]
        state.dropped_tokens, state.reason = most - length, "; ".join(reasons)
        if state.dropped_tokens and not reasons:
            state.reason = "the cards were not written to the same token"
        _fill(state, length, layout)
        undo.pop_all()
    return state


def _attach(card: CardStore, data: CardSequence, record: SequenceRecord, layout: ModelLayout) -> tuple[int, str]:
    """Connects groups and checksums, checks the end; (tokens that are good, why not all)."""
    data.record, data.committed, data.tail = record.id, record.stored, record.tail
    for place in record.groups:
        group = card.attach(data, place)
        if card.volume.users(place) > 1:  # a fork that is still open reads these pages
            group.frozen = record.stored
    try:
        if record.stored % layout.unit_tokens or (record.tail and record.tail.tokens > layout.unit_tokens):
            raise ValueError("tokens that are not whole units")
        unit_nbytes = layout.unit_crcs_nbytes(len(record.heads))
        for spilled in record.spills:
            if len(spilled.crcs) != spilled.tokens // layout.unit_tokens * unit_nbytes:
                raise ValueError(f"{len(spilled.crcs)} bytes of checksums for {spilled.tokens} tokens")
            card_index.set_unit_crcs(layout, data, spilled.first, spilled.crcs)
    except (ValueError, IndexError) as error:
        text = f"sequence {record.name!r}: checksums do not fit the layout"
        raise VolumeDamaged(text, path=str(card.volume.folder)) from error
    stored, reason = _present(card, data, record.stored, layout)
    while stored:
        try:
            for layer in range(layout.layers):
                card.read(data, layer, stored - layout.unit_tokens, layout.unit_tokens)
            break
        except PageMismatch as error:
            stored, reason = stored - layout.unit_tokens, reason or str(error)
    tail = record.tail
    if stored < record.stored or tail is None or not tail.tokens:
        return stored, reason
    if tail.first != stored:
        return stored, f"{card.volume.folder}: the partial unit does not follow the whole ones"
    try:
        card_index.read_tail(card, data)
    except PageMismatch as error:
        return stored, str(error)
    return stored + tail.tokens, ""


def _present(card: CardStore, data: CardSequence, stored: int, layout: ModelLayout) -> tuple[int, str]:
    """Tokens whose pages lie inside the files as they were found."""
    for extent, group in enumerate(data.groups):
        first = extent * layout.extent_tokens
        torn = card.volume.torn(group.place)
        readable = layout.extent_tokens if torn is None else data.map.readable_tokens(torn)
        if readable < min(layout.extent_tokens, stored - first):
            return first + readable, f"{card.volume.path(group.place)}: the file is too short"
    return stored, ""


def _fill(state: SequenceState, length: int, layout: ModelLayout) -> None:
    """Loads tokens [0, length) and makes the index say the same."""
    unit = whole_units(length, layout.unit_tokens)
    rows = np.zeros((layout.layers, layout.kv_heads, 2, length - unit, layout.d_pad), np.float16)
    for part in state.parts:
        card, data = part.card, part.data
        if length > unit:
            if data.committed > unit:
                for layer in range(layout.layers):
                    rows[layer, part.heads] = card.read(data, layer, unit, layout.unit_tokens)[:, :, : length - unit]
            else:
                rows[:, part.heads] = card_index.read_tail(card, data)[:, :, :, : length - unit]
        card_index.truncate(card, data, length, rows[:, part.heads], state.ids)
        for group in data.groups:
            card.volume.mended(group.place)
        card.trim(data, extents(unit, layout.extent_tokens))
        full = unit // layout.extent_tokens
        for extent in range(full):
            card.load_group(data, extent)
        first = full * layout.extent_tokens
        for layer in range(layout.layers):
            card.load(data, layer, first, unit - first)
        card.upload_crcs(data, 0, unit)
    for layer in range(layout.layers):
        state.tail.put(layer, 0, rows[layer, :, 0], rows[layer, :, 1])
        state.tail.settle(layer, unit, length, 0)
        state.set_stored(layer, unit)
        state.upload_tail(layer, 0, length - unit)


def release(state: SequenceState, layout: ModelLayout) -> None:
    """The sequence's memory is free again, and without a name its space on the volumes too. Nothing is written."""
    for part in state.parts:
        if state.name is not None:
            part.card.trim(part.data, extents(part.data.committed, layout.extent_tokens))
        part.card.remove(part.data, keep_pages=state.name is not None)
    state.tail.close()


def delete(name: str, cards: Sequence[CardStore]) -> None:
    """Removes a named sequence from the volumes; it must not be open. KeyError when none has it."""
    known = [copies.remove(card.volume, name) for card in cards]
    if not any(known):
        raise KeyError(f"no sequence is named {name!r}")
