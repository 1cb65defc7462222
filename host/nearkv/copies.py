# SPDX-License-Identifier: Apache-2.0
"""Named sequences that begin as copies of named ones, on all cards: index work on shared extents. Opens nothing.

Extents have keys, which tell what they hold: whoever names the same key for an extent wants the same rows in it. What a
key is made of is the caller's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from nearkv.card_index import clone, enter_sharing
from nearkv.card_store import CardStore
from nearkv.checks import check_name
from nearkv.errors import UserError
from nearkv.layout import ModelLayout
from nearkv.sequence import SequenceState
from nearkv.token_ids import agreed, common
from nearkv.volume import Volume
from nearkv.volume_records import SequenceRecord

_log = logging.getLogger(__name__)


def check_new(cards: Sequence[CardStore], name: str) -> None:
    """UserError for what is no name, and for one that a volume has."""
    check_name(name)
    if any(card.volume.index.find(name) for card in cards):
        raise UserError(f"a sequence named {name!r} exists; open_sequence opens it")


def check_parent(state: SequenceState) -> None:
    """UserError for a sequence that no named copy can be made of now."""
    if state.name is None:
        raise UserError(f"sequence {state.id} has no name, so nothing of it is durable; fork copies it in memory")
    if not state.complete:
        raise UserError(f"sequence {state.id} is in the middle of a step; fork it when all layers hold the same")


def fork_named(state: SequenceState, name: str) -> None:
    """A named sequence that has what `state`, named and flushed, has on the volumes: on all cards or on none."""
    made: list[tuple[CardStore, int]] = []
    try:
        for part in state.parts:
            made.append((part.card, clone(part.card, part.data, name, time.time_ns())))
    except BaseException:
        for card, _ in made:
            remove(card.volume, name)
        raise


def adopt(
    cards: Sequence[CardStore], layout: ModelLayout, name: str, keys: Sequence[bytes], tokens: Sequence[int] = ()
) -> int:
    """A new named sequence that begins with the longest run of extents 0, 1, ... that the volumes hold under `keys`;
    its tokens, 0 when there is none, and then nothing is made. Rows that are known to be of other tokens than the first
    of `tokens` are left alone."""
    count, donor = _longest(cards, layout, keys, tokens)
    made: list[CardStore] = []
    try:
        for card in cards if count else ():
            record = card.volume.index.find(donor)
            if record is not None:
                made.append(card)
                _begin(card, layout, record, name, count)
    except BaseException:
        for card in made:
            remove(card.volume, name)
        raise
    return count * layout.extent_tokens


def shared(cards: Sequence[CardStore], layout: ModelLayout, keys: Sequence[bytes], tokens: Sequence[int] = ()) -> int:
    """The tokens that `adopt` would give."""
    return _longest(cards, layout, keys, tokens)[0] * layout.extent_tokens


def label(state: SequenceState, layout: ModelLayout, keys: Sequence[bytes]) -> None:
    """Extents 0, 1, ... that are full and on the volumes get these keys."""
    for part in state.parts:
        full = part.data.committed // layout.extent_tokens
        if part.data.record is not None:
            part.card.volume.index.set_keys(part.data.record, list(enumerate(keys[:full])))


def remove(volume: Volume, name: str) -> bool:
    """The volume's part of a named sequence that is not open is gone, its space free; whether there was one."""
    record = volume.index.find(name)
    if record is None:
        return False
    volume.index.delete(record.id)
    for place in record.places:
        volume.release(place, len(record.heads))
    return True


def _longest(
    cards: Sequence[CardStore], layout: ModelLayout, keys: Sequence[bytes], tokens: Sequence[int]
) -> tuple[int, str]:
    """(extents, whose); (0, "") where no sequence has any."""
    for count in range(len(keys), 0, -1):
        for name in _named(cards, count - 1, keys[count - 1]):
            if not _whole(cards, layout, name):
                continue  # a crash, or an older copy of a volume, left some of its KV heads only
            if _of_these(cards, name, count * layout.extent_tokens, tokens):
                return count, name
            _log.warning("sequence %r has the key of a prefix that its rows are not of; they are not shared", name)
    return 0, ""


def _named(cards: Sequence[CardStore], extent: int, key: bytes) -> list[str]:
    """Sequences whose extent has this key on every card that holds some of them."""
    found = [(card, set(card.volume.index.with_key(extent, key))) for card in cards]
    names = sorted(set().union(*(names for _, names in found)))
    return [n for n in names if all(n in have or card.volume.index.find(n) is None for card, have in found)]


def _whole(cards: Sequence[CardStore], layout: ModelLayout, name: str) -> bool:
    """Whether the cards together have all KV heads of the sequence."""
    records = [record for card in cards if (record := card.volume.index.find(name)) is not None]
    return sorted(head for record in records for head in record.heads) == list(range(layout.kv_heads))


def _of_these(cards: Sequence[CardStore], name: str, count: int, tokens: Sequence[int]) -> bool:
    """Whether nothing shows that the sequence's first `count` rows are not of the first `tokens`."""
    records = [record for card in cards if (record := card.volume.index.find(name)) is not None]
    if any(record.stored < count for record in records):
        return False
    known = agreed([record.ids[:count] for record in records])
    return len(known) == count and (not tokens or common(known, tokens) == count)


def _begin(card: CardStore, layout: ModelLayout, donor: SequenceRecord, name: str, count: int) -> None:
    unit_nbytes = layout.unit_crcs_nbytes(len(donor.heads))
    spills = donor.cut_spills(count * layout.extent_tokens, layout.unit_tokens, unit_nbytes)
    record = SequenceRecord(
        0, name, donor.heads, donor.groups[:count], spills, None, donor.tags[:count], donor.keys[:count], time.time_ns()
    )
    enter_sharing(card, record, count)
