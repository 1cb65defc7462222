# SPDX-License-Identifier: Apache-2.0
"""The tables of an xclbin: memory banks, connections, compute units, clocks. Bytes to tuples and back, checked."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from nearkv_driver.xclbin.container import Section, XclbinError, entry_name, unpack_table

_COUNT = struct.Struct("<i")
_SHORT = struct.Struct("<h")
_BANK = struct.Struct("<BB6xQQ16s")
_CONNECTION = struct.Struct("<iii")
_IP = struct.Struct("<IIQ64s")
_CLOCK = struct.Struct("<HB5x128s")
_KERNEL = 1  # IP_KERNEL
_KIB = 1024


class BankType(IntEnum):
    """`enum MEM_TYPE`, those that hold buffers."""

    DDR3 = 0
    DDR4 = 1
    DRAM = 2
    HBM = 6
    HOST = 10


class ClockType(IntEnum):
    """What a clock is for (`CLOCK_TYPE` of xclbin.h). Kernels run on DATA."""

    DATA = 1
    KERNEL = 2
    SYSTEM = 3


class Protocol(IntEnum):
    """How a unit is started: bits 8 to 15 of its properties."""

    AP_CTRL_HS = 0
    AP_CTRL_CHAIN = 1
    AP_CTRL_NONE = 2


@dataclass(frozen=True)
class BankRow:
    """A memory of the card; `type` is a BankType, or a number that a newer XRT has added."""

    type: int
    used: bool
    nbytes: int
    base: int
    tag: str


@dataclass(frozen=True)
class UnitRow:
    """A compute unit; `name` is `kernel:instance`."""

    name: str
    base: int
    protocol: int
    interrupt: int | None  # its id; None where it has none


@dataclass(frozen=True)
class Connection:
    """Argument `argument` of unit `unit` reaches bank `bank`; all three are indices."""

    argument: int
    unit: int
    bank: int


@dataclass(frozen=True)
class ClockRow:
    """A clock; `type` is a ClockType, or a number that a newer XRT has added."""

    name: str
    type: int
    mhz: int


def read_banks(section: Section, file: str) -> tuple[BankRow, ...]:
    """MEM_TOPOLOGY or GROUP_TOPOLOGY; sizes in bytes. XclbinError where it is damaged, naming `file`."""
    rows: Sequence[Any] = unpack_table(section, file, _COUNT, _BANK, 8)
    return tuple(
        BankRow(kind, bool(used), kib * _KIB, base, entry_name(tag, section, file))
        for kind, used, kib, base, tag in rows
    )


def pack_banks(banks: Sequence[BankRow]) -> bytes:
    """MEM_TOPOLOGY; sizes are rounded down to KiB, as the format has them."""
    rows = [_BANK.pack(b.type, b.used, b.nbytes // _KIB, b.base, b.tag.encode()) for b in banks]
    return struct.pack("<i4x", len(banks)) + b"".join(rows)


def read_connections(section: Section, file: str, units: int, banks: int) -> tuple[Connection, ...]:
    """XclbinError where one names a unit or bank that there is not."""
    found = tuple(Connection(*row) for row in unpack_table(section, file, _COUNT, _CONNECTION, 4))  # type: ignore[arg-type]
    for connection in found:
        if not (0 <= connection.unit < units and 0 <= connection.bank < banks and connection.argument >= 0):
            raise XclbinError(
                f"{connection} with {units} units and {banks} banks",
                file=file,
                section=section.label,
                offset=section.offset,
            )
    return found


def pack_connections(connections: Sequence[Connection]) -> bytes:
    """CONNECTIVITY."""
    rows = [_CONNECTION.pack(c.argument, c.unit, c.bank) for c in connections]
    return _COUNT.pack(len(rows)) + b"".join(rows)


def read_units(section: Section, file: str) -> tuple[UnitRow, ...]:
    """Every IP of the table in its order, since connections count all of them."""
    rows: Sequence[Any] = unpack_table(section, file, _COUNT, _IP, 8)
    return tuple(
        UnitRow(
            entry_name(name, section, file),
            base,
            properties >> 8 & 0xFF,
            properties >> 1 & 0x7F if properties & 1 else None,
        )
        for _, properties, base, name in rows
    )


def pack_units(units: Sequence[UnitRow]) -> bytes:
    """IP_LAYOUT."""
    rows = []
    for unit in units:
        interrupt = 0 if unit.interrupt is None else 1 | unit.interrupt << 1
        rows.append(_IP.pack(_KERNEL, interrupt | unit.protocol << 8, unit.base, unit.name.encode()))
    return struct.pack("<i4x", len(units)) + b"".join(rows)


def read_clocks(section: Section, file: str) -> tuple[ClockRow, ...]:
    """CLOCK_FREQ_TOPOLOGY. XclbinError where it is damaged, naming `file`."""
    rows: Sequence[Any] = unpack_table(section, file, _SHORT, _CLOCK, 2)
    return tuple(ClockRow(entry_name(name, section, file), kind, mhz) for mhz, kind, name in rows)


def pack_clocks(clocks: Sequence[ClockRow]) -> bytes:
    """CLOCK_FREQ_TOPOLOGY."""
    rows = [_CLOCK.pack(c.mhz, c.type, c.name.encode()) for c in clocks]
    return _SHORT.pack(len(clocks)) + b"".join(rows)
