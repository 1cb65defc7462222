# SPDX-License-Identifier: Apache-2.0
"""The container (`struct axlf`): header and sections as bytes. Knows nothing of what a section holds.

Every field of a file is checked against its size before it is used; what is wrong is named by section and offset.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from uuid import UUID

from nearkv_driver.bounded_file import XCLBIN_NBYTES_MAX, FileRefused, read_file

MAGIC = b"xclbin2\0"
_LEAD = struct.Struct("<8si28s256sQ")  # magic, signature length, reserved, key block, unique id
_HEADER = struct.Struct("<QQQHBBHH16s64s16s16sI4x")
_SECTION = struct.Struct("<I16s4xQQ")
_TABLE = _LEAD.size + _HEADER.size
_ALIGN = 8
_UNSIGNED = -1
_RESERVED = b"\xff" * 28
_SECTIONS_MAX = 1024
# How files begin that are taken for an xclbin.
_OTHERS = {b"\x00\x09\x0f\xf0": "a .bit file", b"\x7fELF": "an ELF file", b"PK\x03\x04": "a zip file (.xsa or .xo)"}


class XclbinError(ValueError):
    """A file or a design that is no valid xclbin; `file`, `section` (empty: the header) and `offset` say where."""

    def __init__(self, message: str, *, file: str, section: str = "", offset: int | None = None) -> None:
        where = "".join(
            (f", section {section}" if section else "", f" at offset {offset}" if offset is not None else "")
        )
        super().__init__(f"{file}{where}: {message}")
        self.file, self.section, self.offset = file, section, offset


class Mode(IntEnum):
    """What a file is for. FLAT is a bitstream for a card (`v++ -t hw`)."""

    FLAT = 0
    PR = 1
    TANDEM_STAGE2 = 2
    TANDEM_STAGE2_WITH_PR = 3
    HW_EMU = 4
    SW_EMU = 5


class SectionKind(IntEnum):
    """`enum axlf_section_kind`, as far as this package or its users meet them."""

    BITSTREAM = 0
    EMBEDDED_METADATA = 2
    DEBUG_DATA = 4
    MEM_TOPOLOGY = 6
    CONNECTIVITY = 7
    IP_LAYOUT = 8
    DEBUG_IP_LAYOUT = 9
    CLOCK_FREQ_TOPOLOGY = 11
    BUILD_METADATA = 14
    KEYVALUE_METADATA = 15
    USER_METADATA = 16
    PARTITION_METADATA = 20
    EMULATION_DATA = 21
    SYSTEM_METADATA = 22
    SOFT_KERNEL = 23
    GROUP_TOPOLOGY = 26
    GROUP_CONNECTIVITY = 27


def kind_name(kind: int) -> str:
    """The name of a section's kind; `kind N` for one that is not in SectionKind."""
    return SectionKind(kind).name if kind in SectionKind._value2member_map_ else f"kind {kind}"


@dataclass(frozen=True)
class Header:
    """`struct axlf_header` without lengths and counts, and the fields before it. `platform` is the VBNV name."""

    platform: str
    uuid: UUID
    mode: int = Mode.FLAT
    version: tuple[int, int, int] = (2, 0, 0)  # major, minor, patch
    timestamp: int = 0
    rom_timestamp: int = 0
    action_mask: int = 0
    rom_uuid: bytes = bytes(16)
    debug_name: str = ""
    unique_id: int = 0
    key_block: bytes = bytes(256)


@dataclass(frozen=True)
class Section:
    """One section; `offset` is where it was found in a file."""

    kind: int
    name: str
    data: bytes
    offset: int = 0

    @property
    def label(self) -> str:
        return kind_name(self.kind)


@dataclass(frozen=True)
class Container:
    """A whole file. `signature` is what follows it when it is signed; packing a changed file must drop it."""

    header: Header
    sections: tuple[Section, ...]
    signature: bytes = b""

    def section(self, kind: int) -> Section | None:
        """The first section of a kind."""
        return next((section for section in self.sections if section.kind == kind), None)

    def pack(self) -> bytes:
        """The file. Sections follow one another in order, each at a multiple of 8."""
        end = _TABLE + _SECTION.size * max(1, len(self.sections))
        table, body = bytearray(), bytearray(end)
        for section in self.sections:
            body += bytes(-len(body) % _ALIGN)
            table += _SECTION.pack(section.kind, _text(section.name, 16, "section name"), len(body), len(section.data))
            body += section.data
        head, (major, minor, patch) = self.header, self.header.version
        body[: _LEAD.size] = _LEAD.pack(
            MAGIC, len(self.signature) or _UNSIGNED, _RESERVED, head.key_block, head.unique_id
        )
        body[_LEAD.size : _TABLE] = _HEADER.pack(
            len(body),
            head.timestamp,
            head.rom_timestamp,
            patch,
            major,
            minor,
            head.mode,
            head.action_mask,
            head.rom_uuid,
            _text(head.platform, 64, "platform"),
            head.uuid.bytes,
            _text(head.debug_name, 16, "debug name"),
            len(self.sections),
        )
        body[_TABLE : _TABLE + len(table)] = table
        return bytes(body) + self.signature

    @classmethod
    def parse(cls, data: bytes, file: str = "xclbin") -> Container:
        """XclbinError where the bytes are no whole xclbin."""
        if data[:8] != MAGIC:
            found = next((name for start, name in _OTHERS.items() if data.startswith(start)), f"magic {data[:8]!r}")
            raise XclbinError(f"no xclbin: {found}; wanted magic {MAGIC!r}", file=file, offset=0)
        if len(data) < _TABLE:
            raise XclbinError(f"ends after {len(data)} bytes; the header has {_TABLE}", file=file, offset=len(data))
        _, signed, _, key_block, unique_id = _LEAD.unpack_from(data)
        (
            length,
            timestamp,
            rom_timestamp,
            patch,
            major,
            minor,
            mode,
            action_mask,
            rom_uuid,
            platform,
            uuid,
            debug,
            count,
        ) = _HEADER.unpack_from(data, _LEAD.size)
        wanted = length + max(0, signed)
        if len(data) != wanted or length < _TABLE:
            raise XclbinError(f"the header says {wanted} bytes, the file has {len(data)}", file=file, offset=_LEAD.size)
        if count > _SECTIONS_MAX or _TABLE + count * _SECTION.size > length:
            raise XclbinError(f"{count} sections do not fit into {length} bytes", file=file, offset=_TABLE - 8)
        header = Header(
            platform=_name(platform, "platform", file, _LEAD.size + 48),
            uuid=UUID(bytes=uuid),
            mode=mode,
            version=(major, minor, patch),
            timestamp=timestamp,
            rom_timestamp=rom_timestamp,
            action_mask=action_mask,
            rom_uuid=rom_uuid,
            debug_name=_name(debug, "debug name", file, _LEAD.size + 128),
            unique_id=unique_id,
            key_block=key_block,
        )
        sections = tuple(_section(data, i, length, file) for i in range(count))
        return cls(header, sections, data[length:])


def read_container(path: str | Path) -> Container:
    """XclbinError naming the file where it is missing, unreadable, larger than 2 GiB, cut or something else."""
    try:
        data = read_file(path, XCLBIN_NBYTES_MAX)
    except FileRefused as error:
        raise XclbinError(error.reason, file=str(path)) from error
    return Container.parse(data, str(path))


def unpack_table(
    section: Section, file: str, count: struct.Struct, entry: struct.Struct, start: int
) -> Sequence[tuple[int | bytes, ...]]:
    """Entries of a section that begins with their number and holds them from `start` on."""
    if len(section.data) < count.size:
        raise XclbinError(
            f"{len(section.data)} bytes hold no count", file=file, section=section.label, offset=section.offset
        )
    (entries,) = count.unpack_from(section.data)
    room = (len(section.data) - start) // entry.size
    if not 0 <= entries <= max(0, room):
        raise XclbinError(
            f"{entries} entries of {entry.size} bytes do not fit into {len(section.data)} bytes",
            file=file,
            section=section.label,
            offset=section.offset,
        )
    return [entry.unpack_from(section.data, start + i * entry.size) for i in range(entries)]


def entry_name(field: bytes, section: Section, file: str) -> str:
    """A text field of a table entry."""
    try:
        return field.split(b"\0", 1)[0].decode("ascii")
    except UnicodeDecodeError:
        raise XclbinError(
            f"the name {field!r} is not ASCII", file=file, section=section.label, offset=section.offset
        ) from None


def _section(data: bytes, index: int, length: int, file: str) -> Section:
    at = _TABLE + index * _SECTION.size
    kind, name, offset, nbytes = _SECTION.unpack_from(data, at)
    if offset < _TABLE or offset + nbytes > length:
        raise XclbinError(
            f"lies at {offset} to {offset + nbytes}, the file ends at {length}",
            file=file,
            section=kind_name(kind),
            offset=at,
        )
    return Section(kind, _name(name, "section name", file, at + 4), data[offset : offset + nbytes], offset)


def _name(field: bytes, what: str, file: str, offset: int) -> str:
    try:
        return field.split(b"\0", 1)[0].decode("ascii")
    except UnicodeDecodeError:
        raise XclbinError(f"the {what} {field!r} is not ASCII", file=file, offset=offset) from None


def _text(text: str, room: int, what: str) -> bytes:
    data = text.encode("ascii", "replace")
    if not text.isascii() or len(data) >= room or "\0" in text:
        raise ValueError(f"{what} {text!r}: at most {room - 1} ASCII characters")
    return data
