# SPDX-License-Identifier: Apache-2.0
"""Rows of a volume's index as one record, refused where they contradict themselves or one another. Runs no query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearkv.token_ids import ID_NBYTES
from nearkv.volume_errors import VolumeDamaged
from nearkv.volume_records import Place, SequenceRecord, SpillRecord, TailRecord
from nearkv.volume_schema import seal

Row = tuple[Any, ...]


def record_of(path: Path, row: Row, groups: Sequence[Row], spills: Sequence[Row]) -> SequenceRecord:
    """`row`: what is sealed, `used_ns`, `tail_ids`, `seal`; `groups` by extent and `spills` by first token, as the
    tables have them.

    VolumeDamaged when the row is not what was sealed, a value has another type or size, spills do not follow one
    another or a group is missing.
    """
    _, name, heads, file, slot, part, first, tokens, crcs, used_ns, tail_ids, sealed = row
    if seal(*row[:-3]) != sealed:
        raise VolumeDamaged(f"the row of sequence {name!r} differs from its checksum", path=str(path))
    extents = [tuple(group[:3]) for group in groups]
    numbers = [first, tokens, used_ns, *(n for group in extents for n in group), *(n for s in spills for n in s[:2])]
    blobs = [spill[2] for spill in spills]
    blobs += [value for group in groups for value in group[3:] if value is not None]
    if file is not None:
        numbers += [file, slot, part]
        blobs.append(crcs)
    # SQLite keeps a value of any type in any column.
    if not all(isinstance(n, int) and n >= 0 for n in numbers) or not all(isinstance(b, bytes) for b in blobs):
        raise VolumeDamaged(f"sequence {name!r} has values that are no numbers or checksums", path=str(path))
    for blob, count in [(tail_ids, tokens), *((spill[3], spill[1]) for spill in spills)]:
        if blob is not None and not (isinstance(blob, bytes) and len(blob) == count * ID_NBYTES):
            raise VolumeDamaged(f"sequence {name!r} has token ids that are not those of {count} tokens", path=str(path))
    places = [(extent, Place(f, s)) for extent, f, s in extents]
    records = tuple(SpillRecord(*spill) for spill in spills)
    end = 0
    for spill in records:
        if spill.first != end:
            raise VolumeDamaged(f"sequence {name!r} lacks tokens from {end} on", path=str(path))
        end += spill.tokens
    if [extent for extent, _ in places] != list(range(len(places))):
        raise VolumeDamaged(f"sequence {name!r} lacks an extent group", path=str(path))
    tail = None if file is None else TailRecord(Place(file, slot), part, first, tokens, crcs, tail_ids)
    tags, keys = tuple(group[3] for group in groups), tuple(group[4] for group in groups)
    wanted = _heads(path, name, heads)
    return SequenceRecord(row[0], name, wanted, tuple(p for _, p in places), records, tail, tags, keys, used_ns)


def _heads(path: Path, name: str, text: object) -> tuple[int, ...]:
    """KV heads from their JSON list: ascending, at least one."""
    try:
        heads = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        heads = None
    if not (isinstance(heads, list) and heads and all(type(h) is int and h >= 0 for h in heads)) or (
        sorted(set(heads)) != heads
    ):
        raise VolumeDamaged(f"sequence {name!r} has KV heads {text!r}", path=str(path))
    return tuple(heads)
