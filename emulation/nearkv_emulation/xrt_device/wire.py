# SPDX-License-Identifier: Apache-2.0
"""The encoding of the shim's messages: numbered fields that are a variable-length number or bytes. No I/O.

What is damaged raises ProtocolError with the offset; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Value = int | bytes | memoryview
_NUMBER, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_NUMBER_NBYTES_MAX = 10
_U64 = (1 << 64) - 1


class ProtocolError(Exception):
    """The other side sent what no shim sends."""


def put_number(value: int) -> bytes:
    """A variable-length number of 64 bits."""
    if not 0 <= value <= _U64:
        raise ValueError(f"{value} is no unsigned 64-bit number")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def get_number(data: memoryview, at: int) -> tuple[int, int]:
    """The number at `at` and the offset behind it."""
    value = 0
    for i in range(_NUMBER_NBYTES_MAX):
        if at + i >= len(data):
            raise ProtocolError(f"the message ends at {len(data)} inside a number that begins at {at}")
        byte = data[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            if value > _U64:
                break
            return value, at + i + 1
    raise ProtocolError(f"the number at {at} does not fit 64 bits")


class Fields:
    """The fields of one message. Bytes are views of it."""

    def __init__(self, found: dict[int, list[Value]]) -> None:
        self._found = found

    @classmethod
    def parse(cls, message: bytes | bytearray | memoryview) -> Fields:
        """Raises ProtocolError."""
        data, at = memoryview(message), 0
        found: dict[int, list[Value]] = {}
        while at < len(data):
            start = at
            key, at = get_number(data, at)
            value: Value
            if key & 7 == _NUMBER:
                value, at = get_number(data, at)
            elif key & 7 in (_FIXED64, _FIXED32, _BYTES):
                size = {_FIXED64: 8, _FIXED32: 4}.get(key & 7)
                if size is None:
                    size, at = get_number(data, at)
                if size > len(data) - at:
                    raise ProtocolError(f"field {key >> 3} at {start} has {size} bytes, {len(data) - at} are left")
                value = data[at : at + size]
                at += size
                if key & 7 != _BYTES:
                    value = int.from_bytes(value, "little")
            else:
                raise ProtocolError(f"field {key >> 3} at {start} has type {key & 7}, which no message has")
            if not key >> 3:
                raise ProtocolError(f"field 0 at {start}; fields count from 1")
            found.setdefault(key >> 3, []).append(value)
        return cls(found)

    def number(self, field: int, default: int | None = None) -> int:
        """The last value of a field, as the encoding wants it; ProtocolError where it is missing or no number."""
        value = self._last(field, default)
        if not isinstance(value, int):
            raise ProtocolError(f"field {field} holds {len(value)} bytes; a number is expected")
        return value

    def data(self, field: int, default: bytes | None = None) -> bytes | memoryview:
        value = self._last(field, default)
        if isinstance(value, int):
            raise ProtocolError(f"field {field} is the number {value}; bytes are expected")
        return value

    def all(self, field: int) -> Sequence[Value]:
        """Every value of a repeated field."""
        return tuple(self._found.get(field, ()))

    def _last(self, field: int, default: Value | None) -> Value:
        if field in self._found:
            return self._found[field][-1]
        if default is None:
            raise ProtocolError(f"field {field} is missing; the message has {sorted(self._found)}")
        return default


def pack(fields: Iterable[tuple[int, int | bytes | memoryview]]) -> bytes:
    """A message of (field, value) pairs."""
    out: list[bytes | memoryview] = []
    for field, value in fields:
        if isinstance(value, int):
            out += [put_number(field << 3 | _NUMBER), put_number(value)]
        else:
            out += [put_number(field << 3 | _BYTES), put_number(len(value)), value]
    return b"".join(out)
