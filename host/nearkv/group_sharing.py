# SPDX-License-Identifier: Apache-2.0
"""Who may write to an extent group that several sequences read: a unit that another one can read is never written
again. Moves no row.
"""

from __future__ import annotations

from collections.abc import Iterable

from nearkv.card_sequence import CardSequence, Group
from nearkv.volume import Volume
from nearkv.volume_records import Place


def may_write(volume: Volume, sequence: CardSequence, group: Group, stored: int) -> bool:
    """Whether the sequence, which has `stored` tokens, may write what follows them into the group."""
    if volume.users(group.place) > 1:  # the index keeps pages for a name that is not open, or open elsewhere
        return group.writer is sequence and stored >= group.frozen
    return group.users == 1 or (group.writer in (sequence, None) and stored >= group.frozen)


def share(volume: Volume, sequences: Iterable[CardSequence], place: Place, extent_tokens: int) -> None:
    """One more name in the index has the full extent at `place`: whoever of `sequences`, those that are open, has it
    writes there no more."""
    volume.hold(place)
    for group in {id(group): group for s in sequences for group in s.groups if group.place == place}.values():
        group.frozen = group.first - group.first % extent_tokens + extent_tokens


def inherit(parent: CardSequence, child: CardSequence, extent_tokens: int) -> None:
    """The empty sequence `child` reads the whole units of `parent`, whose layers all hold the same, from now on."""
    child.table.copy_stored(parent.table)
    stored, size = parent.table.stored, extent_tokens
    child.groups.extend(parent.groups[: parent.groups_of(stored)])
    for group in child.groups:
        group.users += 1
        group.frozen = max(group.frozen, min(stored, group.first - group.first % size + size))
