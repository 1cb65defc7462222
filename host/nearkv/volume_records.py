# SPDX-License-Identifier: Apache-2.0
"""What a volume's index says, as values: places, spills, partial units, sequences. Reads no file and checks no row."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearkv.token_ids import Ids, cut, unpack


@dataclass(frozen=True)
class Place:
    """A run of slots in a data file."""

    file: int
    slot: int


@dataclass(frozen=True)
class TailRecord:
    """A partial unit on flash: `tokens` tokens from `first` on, in part `part` of the run at `place`. `ids`: which ones
    (`token_ids.pack`), None where that is not known."""

    place: Place
    part: int
    first: int
    tokens: int
    crcs: bytes
    ids: bytes | None = None


@dataclass(frozen=True)
class SpillRecord:
    """Whole units [first, first + tokens) with their checksums, unit by unit. `ids`: as of a partial unit."""

    first: int
    tokens: int
    crcs: bytes
    ids: bytes | None = None


@dataclass(frozen=True)
class SequenceRecord:
    """What the index knows of one named sequence on this card.

    `tags`, one per group: rows of several sequences that name the same place have the same one. `used_ns`: when it was
    last opened or written, nanoseconds since 1970, later where the clock was set back.
    """

    id: int
    name: str
    heads: tuple[int, ...]
    groups: tuple[Place, ...] = ()
    spills: tuple[SpillRecord, ...] = ()
    tail: TailRecord | None = field(default=None)
    tags: tuple[bytes, ...] = ()
    keys: tuple[bytes | None, ...] = ()
    used_ns: int = 0

    @property
    def places(self) -> tuple[Place, ...]:
        """Every run of slots that it uses."""
        return (*self.groups, *((self.tail.place,) if self.tail else ()))

    @property
    def stored(self) -> int:
        """Tokens in whole units."""
        return self.spills[-1].first + self.spills[-1].tokens if self.spills else 0

    def cut_spills(self, tokens: int, unit_tokens: int, unit_nbytes: int) -> tuple[SpillRecord, ...]:
        """The spills of whole units [0, tokens); `unit_nbytes` of checksums belong to a unit."""
        kept = []
        for spill in self.spills:
            if spill.first < tokens:
                count = min(spill.tokens, tokens - spill.first)
                crcs = spill.crcs[: count // unit_tokens * unit_nbytes]
                kept.append(SpillRecord(spill.first, count, crcs, cut(spill.ids, count)))
        return tuple(kept)

    @property
    def tokens(self) -> int:
        return self.stored + (self.tail.tokens if self.tail else 0)

    @property
    def ids(self) -> Ids:
        """Which tokens these are."""
        ids = [token for spill in self.spills for token in unpack(spill.ids, spill.tokens)]
        return ids + (unpack(self.tail.ids, self.tail.tokens) if self.tail else [])
