# SPDX-License-Identifier: Apache-2.0
"""What makes one card's part of a named sequence durable: pages, then sync, then the index. Moves nothing to the card.

A page that the index names is never written again. Whole units lie at their final place; a partial unit is written to
another part of its run each time (docs/volume-format.md). Everything here does nothing for a sequence without a name.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from nearkv_driver.pagestore import aligned_buffer, page_crcs
from numpy.typing import NDArray

from nearkv.card_sequence import CardSequence
from nearkv.card_store import CardStore, Rows
from nearkv.group_sharing import may_write, share
from nearkv.layout import ModelLayout
from nearkv.pages import extents, pieces, whole_units
from nearkv.token_ids import cut, pack
from nearkv.volume_errors import PageMismatch
from nearkv.volume_records import Place, SequenceRecord, SpillRecord, TailRecord


def unit_crcs(layout: ModelLayout, sequence: CardSequence, first: int, end: int) -> bytes:
    """Checksums of whole units [first, end) as the index keeps them: [units, layers, heads, pages, 2]."""
    out = bytearray()
    pages = layout.unit_pages
    for start in range(first, end, layout.unit_tokens):
        extent, inside = divmod(start, layout.extent_tokens)
        page = inside // layout.unit_tokens * pages
        out += sequence.groups[extent].crcs[:, :, page : page + pages].tobytes()
    return bytes(out)


def set_unit_crcs(layout: ModelLayout, sequence: CardSequence, first: int, crcs: bytes) -> None:
    """The inverse of `unit_crcs`; ValueError when the size is not that of whole units."""
    pages = layout.unit_pages
    units = np.frombuffer(crcs, np.uint32).reshape(-1, layout.layers, len(sequence.heads), pages, 2)
    for i, unit in enumerate(units):
        extent, inside = divmod(first + i * layout.unit_tokens, layout.extent_tokens)
        page = inside // layout.unit_tokens * pages
        sequence.groups[extent].crcs[:, :, page : page + pages] = unit


def commit(card: CardStore, sequence: CardSequence, tokens: int, ids: Sequence[int | None] = ()) -> None:
    """Whole units [0, tokens) are durable when this returns; they have been written. `ids`: which tokens these are, as
    far as it is known, from the first on."""
    first = sequence.committed
    if sequence.record is None or tokens <= first:
        return
    card.volume.sync()
    size = card.layout.extent_tokens
    known = extents(first, size)
    groups = [(p.extent, sequence.groups[p.extent].place) for p in pieces(first, tokens, size) if p.extent >= known]
    crcs = unit_crcs(card.layout, sequence, first, tokens)
    card.volume.index.add_spill(sequence.record, first, tokens - first, crcs, groups, pack(ids, first, tokens))
    sequence.committed = tokens
    if sequence.tail:
        sequence.tail = _empty(sequence.tail)


def restore(card: CardStore, sequence: CardSequence, committed: int, tail: TailRecord | None) -> None:
    """Undoes `commit`: the index knows whole units [0, committed) and the partial unit `tail` again."""
    if sequence.record is None or sequence.committed == committed:
        return
    spills = _cut(card.layout, sequence, card.volume.index.load(sequence.record), committed)
    size = card.layout.extent_tokens
    card.volume.index.truncate(sequence.record, committed, spills, tail, extents(committed, size), committed // size)
    sequence.committed, sequence.tail = committed, tail


def write_tail(
    card: CardStore, sequence: CardSequence, first: int, rows: NDArray[np.float16], ids: Sequence[int | None] = ()
) -> None:
    """The partial unit that starts at `first`: rows [layers, heads, 2, tokens, d_pad], durable when this returns."""
    if sequence.record is None:
        return
    tail = _write_tail_pages(card, sequence, first, rows, ids)
    try:
        card.volume.index.set_tail(sequence.record, tail)
    except BaseException:
        if not sequence.tail:
            card.volume.release(tail.place, len(sequence.heads))
        raise
    sequence.tail = tail


def read_tail(card: CardStore, sequence: CardSequence) -> NDArray[np.float16]:
    """Rows of the partial unit, checked: [layers, heads, 2, tokens, d_pad]."""
    tail = sequence.tail
    assert tail is not None
    rows, view = _tail_memory(card, sequence)
    card.volume.read_into(tail.place, tail.part * len(view), view)
    if page_crcs(view).tobytes() != tail.crcs:
        raise PageMismatch("the partial unit differs from its checksums", path=str(card.volume.path(tail.place)))
    card.read_back_nbytes += len(view)
    return rows[:, :, :, : tail.tokens]


def truncate(
    card: CardStore,
    sequence: CardSequence,
    length: int,
    rows: NDArray[np.float16] | None,
    ids: Sequence[int | None] = (),
) -> None:
    """The index knows no token from `length` on when this returns.

    `rows` [layers, heads, 2, tokens, d_pad] are the tokens between the last whole unit and `length`: they are written
    as a partial unit when they lie in a unit that is cut. Groups stay with the caller.
    """
    if sequence.record is None:
        return
    unit = whole_units(length, card.layout.unit_tokens)
    if sequence.committed > length:
        tail = _write_tail_pages(card, sequence, unit, rows, ids) if rows is not None and unit < length else None
        try:
            size = card.layout.extent_tokens
            spills = _cut(card.layout, sequence, card.volume.index.load(sequence.record), unit)
            card.volume.index.truncate(sequence.record, unit, spills, tail, extents(unit, size), unit // size)
        except BaseException:
            if tail and not sequence.tail:
                card.volume.release(tail.place, len(sequence.heads))
            raise
        sequence.committed = unit
        sequence.tail = tail or (_empty(sequence.tail) if sequence.tail else None)
    elif sequence.tail and sequence.tail.first + sequence.tail.tokens > length and sequence.tail.tokens:
        tokens = max(0, length - sequence.tail.first)
        tail = replace(sequence.tail, tokens=tokens, ids=cut(sequence.tail.ids, tokens))
        card.volume.index.set_tail(sequence.record, tail)
        sequence.tail = tail


def memento(card: CardStore, sequence: CardSequence) -> Callable[[], None]:
    """What makes the index say again what it says now; pages that it names must not have been written or given back.

    A partial unit that was written since stays where it is: nobody names it, and the next one goes to another part.
    """
    if sequence.record is None:
        return lambda: None
    record, committed, tail = card.volume.index.load(sequence.record), sequence.committed, sequence.tail

    def back() -> None:
        card.volume.index.put(record)
        new, sequence.committed, sequence.tail = sequence.tail, committed, tail
        if tail is None and new is not None:  # not before the index has forgotten it
            card.volume.release(new.place, len(sequence.heads))

    return back


def clone(card: CardStore, sequence: CardSequence, name: str, used_ns: int) -> int:
    """Another named sequence of the index that has what this one has on flash; its number.

    Whole extents are shared. The last one, where it is not full, and the partial unit are copied, since each of the two
    goes on there by itself. Durable when this returns.
    """
    assert sequence.record is not None
    record, layout, heads = card.volume.index.load(sequence.record), card.layout, len(sequence.heads)
    full = record.stored // layout.extent_tokens
    taken: list[Place] = []

    def copied(place: Place, first: int, nbytes: int) -> Place:
        taken.append(card.volume.take(heads))
        view = aligned_buffer(nbytes)
        card.volume.read_into(place, first, view)
        card.volume.write(taken[-1], 0, view)
        return taken[-1]

    try:
        groups, tags, keys = list(record.groups[:full]), list(record.tags[:full]), list(record.keys[:full])
        if record.stored % layout.extent_tokens:
            groups.append(copied(record.groups[full], 0, sequence.map.nbytes))
            tags.append(secrets.token_bytes(8))
            keys.append(None)
        tail = None
        if record.tail and record.tail.tokens:
            nbytes = len(_tail_memory(card, sequence)[1])
            tail = replace(record.tail, place=copied(record.tail.place, record.tail.part * nbytes, nbytes), part=0)
        if taken:
            card.volume.sync()
        copy = SequenceRecord(
            0, name, record.heads, tuple(groups), record.spills, tail, tuple(tags), tuple(keys), used_ns
        )
        return enter_sharing(card, copy, full)
    except BaseException:
        for place in taken:
            card.volume.release(place, heads)
        raise


def enter_sharing(card: CardStore, record: SequenceRecord, shared: int) -> int:
    """A new named sequence whose first `shared` groups others have too; its number. Nothing of it remains where this
    raises.

    The groups are counted first: with a user too few, space that the index names would be given away.
    """
    held: list[Place] = []
    try:
        for place in record.groups[:shared]:
            share(card.volume, card.sequences, place, card.layout.extent_tokens)
            held.append(place)
        return card.volume.index.insert(record)
    except BaseException:
        # It may be broken off behind the transaction. Where the index cannot tell, the space stays taken until it can.
        made = card.volume.index.find(record.name)
        if made is not None:
            card.volume.index.delete(made.id)
        for place in held:
            card.volume.release(place, len(record.heads))
        raise


def own_group(card: CardStore, sequence: CardSequence, tokens: int) -> None:
    """Copies the group that holds the last of whole units [0, tokens) when others read what is going to be written
    there: a named sequence has one group per extent, so it cannot go on in another one. The index follows."""
    number = sequence.groups_of(tokens) - 1
    if sequence.record is None or tokens % card.layout.extent_tokens == 0:
        return
    if may_write(card.volume, sequence, sequence.groups[number], tokens):
        return
    old, heads = sequence.groups[number].place, len(sequence.heads)
    tags = card.volume.index.load(sequence.record).tags
    # Those that share the old place know it by this tag; a group that the index does not name has none.
    tag = tags[number] if number < len(tags) else b""
    place = card.volume.take(heads)
    try:
        view = aligned_buffer(sequence.map.nbytes)
        card.volume.read_into(old, 0, view)
        card.volume.write(place, 0, view)
        card.volume.sync()
        card.volume.index.move_group(sequence.record, number, place, secrets.token_bytes(8))
    except BaseException:
        card.volume.release(place, heads)
        raise
    try:
        card.replace(sequence, number, place)
    except BaseException:
        card.volume.index.move_group(sequence.record, number, old, tag)
        card.volume.release(place, heads)
        raise


def _cut(layout: ModelLayout, sequence: CardSequence, record: SequenceRecord, tokens: int) -> list[SpillRecord]:
    return list(record.cut_spills(tokens, layout.unit_tokens, layout.unit_crcs_nbytes(len(sequence.heads))))


def _empty(tail: TailRecord) -> TailRecord:
    return replace(tail, tokens=0, ids=None)


def _write_tail_pages(
    card: CardStore, sequence: CardSequence, first: int, rows: Rows, ids: Sequence[int | None]
) -> TailRecord:
    block, view = _tail_memory(card, sequence)
    block[:, :, :, : rows.shape[3]] = rows
    old = sequence.tail
    place = old.place if old else card.volume.take(len(sequence.heads))
    part = (old.part + 1) % card.layout.extent_units if old else 0
    try:
        card.volume.write(place, part * len(view), view)
        card.volume.sync()
    except BaseException:
        if not old:
            card.volume.release(place, len(sequence.heads))
        raise
    card.payload_written_nbytes += rows.size // card.layout.d_pad * card.layout.head_size * 2
    tokens = rows.shape[3]
    return TailRecord(place, part, first, tokens, page_crcs(view).tobytes(), pack(ids, first, first + tokens))


def _tail_memory(card: CardStore, sequence: CardSequence) -> tuple[NDArray[np.float16], memoryview]:
    """Zeroed memory for one unit of every layer and head."""
    layout = card.layout
    shape = (layout.layers, len(sequence.heads), 2, layout.unit_tokens, layout.d_pad)
    view = aligned_buffer(int(np.prod(shape)) * 2)
    return np.frombuffer(view, np.float16).reshape(shape), view
