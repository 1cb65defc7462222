# SPDX-License-Identifier: Apache-2.0
"""The calls of the shim and what each carries, as values. Does nothing with them.

Numbers of calls and fields are those of XRT 2.13 to 2.25. Fields that the shim fills with junk are not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from nearkv_emulation.xrt_device.wire import Fields, ProtocolError, pack

_U64 = (1 << 64) - 1


class Call(IntEnum):
    """Numbers of the calls."""

    CLOSE = 1
    ALLOC = 4
    FREE = 5
    TO_DEVICE = 6
    FROM_DEVICE = 7
    WRITE_RAM = 8
    WRITE_REGISTERS = 9
    READ_RAM = 10
    READ_REGISTERS = 11
    TRACE = 16
    TIMESTAMP = 17
    DEBUG = 19
    ENVIRONMENT = 20
    COPY_TO_FILE = 22
    IMPORT = 27
    # The second socket: the device asks, the host answers.
    READ_HOST = 34
    WRITE_HOST = 35
    INTERRUPT = 36
    COPY_FROM_FILE = 50


@dataclass(frozen=True)
class Alloc:
    """A buffer of the host at a device address that the host has chosen."""

    address: int
    nbytes: int
    p2p: bool

    @classmethod
    def of(cls, fields: Fields) -> Alloc:
        return cls(fields.number(1), fields.number(2), bool(fields.number(3, 0)))


@dataclass(frozen=True)
class Write:
    """Bytes for device memory or registers."""

    address: int
    data: memoryview


@dataclass(frozen=True)
class Read:
    """A range of device memory or registers."""

    address: int
    nbytes: int


def to_device(fields: Fields) -> Write:
    """The shim does not add the offset of a partial transfer (`seek`) to the address; the device must."""
    return _write(fields.number(3) + fields.number(6, 0), fields.data(4), fields.number(5))


def from_device(fields: Fields) -> Read:
    """Like `to_device`: the offset is added here."""
    return Read(fields.number(4) + fields.number(6, 0), fields.number(5))


def plain_write(fields: Fields) -> Write:
    """WRITE_RAM and WRITE_REGISTERS."""
    return _write(fields.number(2), fields.data(4), fields.number(3))


def plain_read(fields: Fields) -> Read:
    """READ_RAM and READ_REGISTERS."""
    return Read(fields.number(2), fields.number(3))


def environment(fields: Fields) -> dict[str, str]:
    """Entries of `xrt.ini` as the host has read them."""
    found = {}
    for entry in fields.all(3):
        if isinstance(entry, int):
            raise ProtocolError(f"an environment entry is the number {entry}")
        pair = Fields.parse(entry)
        name, value = (bytes(pair.data(i, b"")).decode(errors="replace") for i in (1, 2))
        found[name] = value
    return found


def answer(value: int = 1) -> bytes:
    """The reply to most calls: it worked."""
    return pack([(1, value)])


def answer_data(value: int, data: bytes | memoryview) -> bytes:
    """The answer to a call that reads: its result and the bytes."""
    return pack([(1, value), (2, data)])


def _write(address: int, data: bytes | memoryview, nbytes: int) -> Write:
    if nbytes > len(data) or address > _U64:
        raise ProtocolError(f"{nbytes} bytes for {address:#x} in a message with {len(data)} bytes of data")
    return Write(address, memoryview(data)[:nbytes])
