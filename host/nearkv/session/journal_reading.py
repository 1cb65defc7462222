# SPDX-License-Identifier: Apache-2.0
"""Reads a session's journal, whole or its header alone. Writes nothing."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearkv.session import frames
from nearkv.session.record_payloads import MARK, decode, encode
from nearkv.session.records import Header, JournalInvalid, Record
from nearkv.session.state import SessionState, replay
from nearkv.volume_errors import VolumeDamaged
from nearkv.volume_files import check_regular, read_whole, unreadable

# A journal that is larger is not read, and so none is written: crops take tokens from a session but add records.
NBYTES_MAX = 1 << 28

# More than a header has: its names are bounded.
_HEADER_NBYTES_MAX = 1 << 16

# In less there is no room for a crop, and the turn, prompt and token that give K and V to other tokens.
_DOUBTFUL_NBYTES = 4 * frames.HEAD_NBYTES


@dataclass(frozen=True)
class Found:
    """What a journal held: the session, and bytes at its end that are no whole record (0: it was closed properly, or
    a crash fell between two records)."""

    state: SessionState
    torn_nbytes: int


def read_journal(path: Path, *, accept_damage: bool = False) -> Found:
    """Reads without changing anything; also while another process writes.

    Last records that are not whole are what a crash leaves, and are counted. A bad record that had been durable is
    VolumeDamaged with its offset, unless `accept_damage` takes what comes before it. VolumeDamaged also for a file
    whose records make no session; StorageError where it cannot be read.
    """
    return judge(path, read_bytes(path), accept_damage)[0]


def read_header(path: Path) -> Header:
    """The first record alone, whatever follows it; raises as `read_journal`."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            frame = frames.first(file.read(_HEADER_NBYTES_MAX))
        header = None if frame is None else decode(frame)
    except OSError as error:
        raise unreadable(path, error.errno or 0) from error
    except JournalInvalid as error:
        raise VolumeDamaged(f"not the journal of a session: {error}", path=str(path)) from error
    if not isinstance(header, Header):
        raise VolumeDamaged("not a journal: it has no header", path=str(path))
    return header


def parse_journal(path: Path, data: bytes) -> tuple[Found, list[Record]]:
    """What a journal's bytes say, and every record of them but marks; raises as `read_journal`."""
    found, scan = judge(path, data, False)
    return found, [decode(frame) for frame in scan.frames if frame.kind != MARK]


def read_bytes(path: Path) -> bytes:
    """A journal as it is in the file; VolumeDamaged for what is none, StorageError where it cannot be read."""
    try:
        return read_whole(path, NBYTES_MAX)
    except FileNotFoundError as error:
        raise unreadable(path, errno.ENOENT) from error


def pack_records(records: Sequence[Record]) -> bytes:
    """What a journal with these records has."""
    packed = (frames.pack(kind, i, i, payload) for i, (kind, payload) in enumerate(map(encode, records)))
    return b"".join(packed)


def doubtful(torn_nbytes: int) -> bool:
    """Whether so many bytes at a journal's end may have had a crop and what was said after it, so that stored K and V
    may be of other tokens than the journal has now."""
    return torn_nbytes >= _DOUBTFUL_NBYTES


def judge(path: Path, data: bytes, accept_damage: bool) -> tuple[Found, frames.Scan]:
    """What a journal's bytes say, and where its frames are; raises as `read_journal`."""
    scan = frames.scan(data)
    if scan.damaged and not accept_damage:
        raise VolumeDamaged(
            f"record {len(scan.frames)} at byte {scan.end} is damaged; later ones say that it had been stored",
            path=str(path),
        )
    try:
        state = replay(decode(frame) for frame in scan.frames)
    except JournalInvalid as error:
        raise VolumeDamaged(f"not the journal of a session: {error}", path=str(path)) from error
    if state.header is None:
        raise VolumeDamaged("not a journal: it has no header", path=str(path))
    return Found(state, scan.rest_nbytes), scan
