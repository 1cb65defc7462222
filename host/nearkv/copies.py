# SPDX-License-Identifier: Apache-2.0
"""Named sequences that begin as copies of named ones, on all cards: index work on shared extents. Opens nothing.

Extents have keys, which tell what they hold: whoever names the same key for an extent wants the same rows in it. What a
key is made of is the caller's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from nearkv.card_index import clone
from nearkv.card_store import CardStore
from nearkv.layout import ModelLayout
from nearkv.sequence import SequenceState
from nearkv.volume import Volume
from nearkv.volume_records import SequenceRecord


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


def adopt(cards: Sequence[CardStore], layout: ModelLayout, name: str, keys: Sequence[bytes]) -> int:
    """A new named sequence that begins with the longest run of extents 0, 1, ... that the volumes hold under `keys`;
    its tokens, 0 when there is none, and then nothing is made."""
    for count in range(len(keys), 0, -1):
        donor = _donor(cards, count - 1, keys[count - 1])
        if donor is None:
            continue
        made: list[CardStore] = []
        try:
            for card in cards:
                record = card.volume.index.find(donor)
                if record is not None:
                    made.append(card)
                    _begin(card, layout, record, name, count)
        except BaseException:
            for card in made:
                remove(card.volume, name)
            raise
        return count * layout.extent_tokens
    return 0


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


def _donor(cards: Sequence[CardStore], extent: int, key: bytes) -> str | None:
    """A sequence whose extent has this key on every card that holds some of it."""
    found = [(card, set(card.volume.index.with_key(extent, key))) for card in cards]
    for name in sorted(set().union(*(names for _, names in found))):
        if all(name in names or card.volume.index.find(name) is None for card, names in found):
            return name
    return None


def _begin(card: CardStore, layout: ModelLayout, donor: SequenceRecord, name: str, count: int) -> None:
    unit_nbytes = layout.layers * len(donor.heads) * layout.unit_pages * 8
    spills = donor.cut_spills(count * layout.extent_tokens, layout.unit_tokens, unit_nbytes)
    record = SequenceRecord(
        0, name, donor.heads, donor.groups[:count], spills, None, donor.tags[:count], donor.keys[:count], time.time_ns()
    )
    card.volume.index.insert(record)
    for place in record.groups:
        card.share(place)
