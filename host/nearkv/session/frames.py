# SPDX-License-Identifier: Apache-2.0
"""The frames of a journal as bytes: pure functions. Opens no file and knows no meaning of a frame's payload.

A frame is [sync u16 | kind u8 | zero u8 | serial u32 | durable u32 | payload bytes u32 | CRC-32C u32 | payload], little
endian. The checksum covers everything but itself. Serials count from 0: a frame that was written into another place,
or twice, does not fit. `durable` frames were on the medium when this one was written. That tells what a power cut
leaves (the last writes, in any part and order) from damage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import google_crc32c

_HEAD = struct.Struct("<HBBIIII")
_SYNC = 0x6E4B
HEAD_NBYTES = _HEAD.size
PAYLOAD_NBYTES_MAX = 1 << 24
# Payloads that are looked at for a later frame, in all: seconds. Heads made to overlap would take days.
_SEARCH_NBYTES_MAX = 1 << 32


@dataclass(frozen=True)
class Frame:
    """`kind` 0 to 255; `serial` is its number in the journal, `offset` where it begins."""

    kind: int
    serial: int
    durable: int
    payload: bytes
    offset: int

    @property
    def end(self) -> int:
        return self.offset + HEAD_NBYTES + len(self.payload)


@dataclass(frozen=True)
class Scan:
    """What a journal's bytes hold: the frames from the start that fit, and where they end.

    `rest_nbytes` follow that are no next frame. `damaged`: a whole frame among them says that the missing one had been
    on the medium, so they are not what a crash left of the last writes.
    """

    frames: tuple[Frame, ...]
    rest_nbytes: int
    damaged: bool

    @property
    def end(self) -> int:
        return self.frames[-1].end if self.frames else 0


def pack(kind: int, serial: int, durable: int, payload: bytes) -> bytes:
    """One frame; ValueError for a payload that no reader would take."""
    if len(payload) > PAYLOAD_NBYTES_MAX:
        raise ValueError(f"a payload of {len(payload)} bytes; a frame takes at most {PAYLOAD_NBYTES_MAX}")
    head = _HEAD.pack(_SYNC, kind, 0, serial, durable, len(payload), 0)
    return _HEAD.pack(_SYNC, kind, 0, serial, durable, len(payload), _checksum(head, payload)) + payload


def scan(data: bytes) -> Scan:
    """The frames of a journal. Never raises, whatever the bytes are."""
    frames = tuple(_follow(data))
    end = frames[-1].end if frames else 0
    rest = len(data) - end
    return Scan(frames, rest, rest > 0 and _was_durable(data, end, len(frames)))


def first(data: bytes) -> Frame | None:
    """The frame that a journal begins with, if it is whole."""
    return next(_follow(data), None)


def _follow(data: bytes) -> Iterator[Frame]:
    offset = serial = 0
    while (frame := _at(data, offset)) is not None and frame.serial == serial:
        yield frame
        offset, serial = frame.end, serial + 1


def _at(data: bytes, offset: int) -> Frame | None:
    if offset + HEAD_NBYTES > len(data):
        return None
    sync, kind, zero, serial, durable, nbytes, crc = _HEAD.unpack_from(data, offset)
    start = offset + HEAD_NBYTES
    if sync != _SYNC or zero or nbytes > PAYLOAD_NBYTES_MAX or start + nbytes > len(data):
        return None
    payload = data[start : start + nbytes]
    if _checksum(_HEAD.pack(sync, kind, 0, serial, durable, nbytes, 0), payload) != crc:
        return None
    return Frame(kind, serial, durable, payload, offset)


def _was_durable(data: bytes, start: int, serial: int) -> bool:
    """Whether a whole frame anywhere behind `start` says that frame `serial` was on the medium.

    True also where it would take too long to see: bytes that a crash leaves are not made of heads.
    """
    sync = struct.pack("<H", _SYNC)
    offset, left = data.find(sync, start + 1), _SEARCH_NBYTES_MAX
    while offset >= 0:
        if (room := len(data) - offset - HEAD_NBYTES) >= 0:
            _, _, _, number, durable, nbytes, _ = _HEAD.unpack_from(data, offset)
            if number > serial and durable > serial and nbytes <= room:
                left -= nbytes
                if left < 0 or _at(data, offset) is not None:
                    return True
        offset = data.find(sync, offset + 1)
    return False


def _checksum(head: bytes, payload: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.value(head), payload))
