# SPDX-License-Identifier: Apache-2.0
"""The records of a journal as kinds and payloads of frames, and back: whatever the bytes, a record or a refusal. Pure;
knows no order of records.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

from nearkv.session.frames import Frame
from nearkv.session.records import (
    FORMAT,
    REASONS,
    Adopted,
    Crop,
    Header,
    JournalInvalid,
    Mark,
    Prompt,
    Record,
    Sampling,
    Token,
    Turn,
    TurnEnd,
)

# Kind of a frame that is a mark.
MARK = 8
_TOKEN = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")


def encode(record: Record) -> tuple[int, bytes]:
    """(kind, payload) of a frame."""
    if isinstance(record, Header):
        return 1, _json(asdict(record))
    if isinstance(record, Turn):
        return 2, _json(asdict(record))
    if isinstance(record, Prompt):
        return 3, struct.pack(f"<{len(record.tokens)}I", *record.tokens)
    if isinstance(record, Token):
        return 4, _TOKEN.pack(record.token)
    if isinstance(record, TurnEnd):
        return 5, record.reason.encode()
    if isinstance(record, Adopted):
        return 7, _LENGTH.pack(record.tokens)
    if isinstance(record, Mark):
        return MARK, b""
    return 6, _LENGTH.pack(record.length)


def decode(frame: Frame) -> Record:
    """JournalInvalid for a payload that is none of its kind."""
    try:
        return _DECODERS[frame.kind](frame.payload)
    except KeyError:
        raise JournalInvalid(f"record {frame.serial} has the unknown kind {frame.kind}") from None
    except (ValueError, TypeError, struct.error, RecursionError) as error:
        raise JournalInvalid(f"record {frame.serial} of kind {frame.kind}: {error}") from error


def _header(payload: bytes) -> Header:
    values = json.loads(payload)
    if isinstance(values, dict) and values.get("format", FORMAT) != FORMAT:  # first: another one may have other names
        raise ValueError(f"journal format {values['format']!r}; this version reads {FORMAT}")
    values = _object(payload, Header)
    if not all(isinstance(value, str) for name, value in values.items() if name != "format"):
        raise ValueError("a header's values are text")
    return Header(**values)


def _turn(payload: bytes) -> Turn:
    values = _object(payload, Turn)
    if not isinstance(values["sampling"], dict):
        raise ValueError("a turn without sampling")
    return Turn(**values | {"sampling": Sampling(**values["sampling"])})


def _prompt(payload: bytes) -> Prompt:
    if not payload or len(payload) % 4:
        raise ValueError(f"{len(payload)} bytes of tokens")
    return Prompt(struct.unpack(f"<{len(payload) // 4}I", payload))


def _mark(payload: bytes) -> Mark:
    if payload:
        raise ValueError(f"a mark of {len(payload)} bytes")
    return Mark()


def _turn_end(payload: bytes) -> TurnEnd:
    reason = payload.decode()
    if reason not in REASONS:
        raise ValueError(f"a turn ended by {reason!r}")
    return TurnEnd(reason)


_DECODERS: dict[int, Callable[[bytes], Record]] = {
    1: _header,
    2: _turn,
    3: _prompt,
    4: lambda payload: Token(_TOKEN.unpack(payload)[0]),
    5: _turn_end,
    6: lambda payload: Crop(_LENGTH.unpack(payload)[0]),
    7: lambda payload: Adopted(_LENGTH.unpack(payload)[0]),
    MARK: _mark,
}


def _json(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":"), sort_keys=True).encode()


def _object(payload: bytes, kind: type[Header] | type[Turn]) -> dict[str, Any]:
    values = json.loads(payload)
    names = {f.name for f in fields(kind)}
    # The first journals have no `weights`.
    if not isinstance(values, dict) or set(values) not in (names, names - {"weights"}):
        raise ValueError(f"an object with {', '.join(sorted(names))} is expected")
    return values
