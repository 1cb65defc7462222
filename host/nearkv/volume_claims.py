# SPDX-License-Identifier: Apache-2.0
"""Which runs of slots the index of a volume names, so that the rest is free. Takes and frees nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nearkv.volume_errors import VolumeDamaged
from nearkv.volume_index import VolumeIndex
from nearkv.volume_records import Place, SequenceRecord


@dataclass(frozen=True)
class Claim:
    """`slots` slots from `place` on are in use; `shared`: a claim before was on the same run, by another sequence."""

    place: Place
    slots: int
    shared: bool


def claims(index: VolumeIndex, folder: Path) -> Iterator[Claim]:
    """Of all sequences, in any order; those on one run that may be shared come after its first."""
    known: set[tuple[Place, bytes, int]] = set()
    for name in index.names():
        record = index.find(name)
        if record is None:
            raise VolumeDamaged(f"the index lists sequence {name!r} and does not find it", path=str(folder))
        for place, tag in _places(record):
            run = (place, tag, len(record.heads))
            yield Claim(place, len(record.heads), bool(tag) and run in known)
            known.add(run)


def _places(record: SequenceRecord) -> list[tuple[Place, bytes]]:
    """Each with the tag of those who may share it; a partial unit is nobody else's."""
    tails = [(record.tail.place, b"")] if record.tail else []
    return [*zip(record.groups, record.tags, strict=True), *tails]
