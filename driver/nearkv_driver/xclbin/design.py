# SPDX-License-Identifier: Apache-2.0
"""A linked design: platform, clocks, banks, compute units and which argument reaches which bank. To and from a file.

Packs what XRT and PYNQ read of an xclbin; the bitstream itself is handed in.
"""

from __future__ import annotations

import hashlib
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from nearkv_driver.xclbin import tables
from nearkv_driver.xclbin.container import Container, Header, Mode, Section, SectionKind, XclbinError
from nearkv_driver.xclbin.kernel import CONTROL, Kernel, parse_xml
from nearkv_driver.xclbin.tables import BankRow, BankType, ClockRow, ClockType, Connection, UnitRow

_Row = TypeVar("_Row")
_TAG_MAX, _UNIT_MAX, _CLOCK_MAX = 15, 63, 127


@dataclass(frozen=True)
class Bank:
    """A memory bank; `nbytes` is a multiple of 1024."""

    tag: str
    base: int
    nbytes: int
    type: int = BankType.DDR4
    used: bool = True


@dataclass(frozen=True)
class Clock:
    """A clock of the platform; `type` is a ClockType."""

    name: str
    mhz: int
    type: int = ClockType.DATA


@dataclass(frozen=True)
class Unit:
    """One instance of a kernel at `base`; `banks` gives the tag of the bank of each pointer argument."""

    kernel: str
    name: str
    base: int
    banks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Design:
    """What an xclbin says beside its bitstream: platform (the VBNV name), kernels and how their units are linked."""

    platform: str
    kernels: tuple[Kernel, ...]
    units: tuple[Unit, ...]
    banks: tuple[Bank, ...]
    clocks: tuple[Clock, ...]
    mode: int = Mode.FLAT

    def check(self) -> None:
        """ValueError for what could not be linked: unknown kernel, bank or argument, overlaps, a name twice."""
        for what, names in (
            ("bank", [b.tag for b in self.banks]),
            ("unit", [u.name for u in self.units]),
            ("kernel", [k.name for k in self.kernels]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{what} {twice[0]!r} stands twice in the design")
        _check_banks(self.banks)
        for clock in self.clocks:
            if not 0 < clock.mhz < 1 << 16 or not _fits(clock.name, _CLOCK_MAX):
                raise ValueError(f"clock {clock.name!r} of {clock.mhz} MHz; 1 to 65535, a name of ASCII characters")
        tags = [bank.tag for bank in self.banks]
        for unit in self.units:
            kernel = next((k for k in self.kernels if k.name == unit.kernel), None)
            if kernel is None:
                raise ValueError(f"unit {unit.name!r} is of kernel {unit.kernel!r}, which the design does not have")
            if not _fits(f"{unit.kernel}:{unit.name}", _UNIT_MAX):
                raise ValueError(f"unit {unit.kernel}:{unit.name}: at most {_UNIT_MAX} ASCII characters")
            pointers = [a.name for a in kernel.arguments if a.pointer]
            if sorted(unit.banks) != sorted(pointers):
                raise ValueError(
                    f"unit {unit.name!r} connects {sorted(unit.banks)}; its pointers are {sorted(pointers)}"
                )
            for argument, tag in unit.banks.items():
                if tag not in tags:
                    raise ValueError(
                        f"unit {unit.name!r}: {argument} goes to bank {tag!r}; there are {', '.join(tags)}"
                    )

    def container(self, bitstream: bytes, uuid: UUID | None = None) -> Container:
        """The file; without `uuid` it gets one that its contents give, so the same design has the same file."""
        self.check()
        units = [
            UnitRow(f"{u.kernel}:{u.name}", u.base, self._kernel(u).protocol, number)
            for number, u in enumerate(self.units)
        ]
        tags = [bank.tag for bank in self.banks]
        connections = [
            Connection(argument.index, number, tags.index(unit.banks[argument.name]))
            for number, unit in enumerate(self.units)
            for argument in self._kernel(unit).arguments
            if argument.pointer
        ]
        banks = tables.pack_banks([BankRow(b.type, b.used, b.nbytes, b.base, b.tag) for b in self.banks])
        links = tables.pack_connections(connections)
        contents = {
            SectionKind.BITSTREAM: bitstream,
            SectionKind.EMBEDDED_METADATA: self._metadata().encode(),
            SectionKind.MEM_TOPOLOGY: banks,
            SectionKind.CONNECTIVITY: links,
            SectionKind.IP_LAYOUT: tables.pack_units(units),
            SectionKind.CLOCK_FREQ_TOPOLOGY: tables.pack_clocks([ClockRow(c.name, c.type, c.mhz) for c in self.clocks]),
            SectionKind.GROUP_TOPOLOGY: banks,
            SectionKind.GROUP_CONNECTIVITY: links,
        }
        if uuid is None:
            digest = hashlib.sha256(self.platform.encode() + bytes([self.mode]))
            for data in contents.values():
                digest.update(len(data).to_bytes(8, "little") + data)
            uuid = UUID(bytes=digest.digest()[:16])
        sections = tuple(Section(kind, kind.name.lower()[:15], data) for kind, data in contents.items())
        return Container(Header(self.platform, uuid, self.mode), sections)

    @classmethod
    def of(cls, container: Container, file: str = "xclbin") -> Design:
        """What a file says; tables that it lacks are empty. XclbinError names section and offset of what is damaged."""
        units = _table(container, SectionKind.IP_LAYOUT, file, tables.read_units)
        banks = _table(container, SectionKind.MEM_TOPOLOGY, file, tables.read_banks)
        clocks = _table(container, SectionKind.CLOCK_FREQ_TOPOLOGY, file, tables.read_clocks)
        link = container.section(SectionKind.CONNECTIVITY)
        connections = tables.read_connections(link, file, len(units), len(banks)) if link else ()
        kernels = _kernels(container, file)
        found = []
        for number, row in enumerate(units):
            kernel, _, name = row.name.partition(":")
            names = {a.index: a.name for k in kernels if k.name == kernel for a in k.arguments}
            reached = {
                names.get(c.argument, f"argument {c.argument}"): banks[c.bank].tag
                for c in connections
                if c.unit == number
            }
            found.append(Unit(kernel, name, row.base, reached))
        return cls(
            platform=container.header.platform,
            kernels=kernels,
            units=tuple(found),
            banks=tuple(Bank(b.tag, b.base, b.nbytes, b.type, b.used) for b in banks),
            clocks=tuple(Clock(c.name, c.mhz, c.type) for c in clocks),
            mode=container.header.mode,
        )

    def _kernel(self, unit: Unit) -> Kernel:
        return next(k for k in self.kernels if k.name == unit.kernel)

    def _metadata(self) -> str:
        project = ET.Element("project", {"name": "nearkv"})
        platform = ET.SubElement(project, "platform", {"vendor": "xilinx", "name": self.platform})
        device = ET.SubElement(platform, "device", {"name": "fpga0"})
        core = ET.SubElement(device, "core", {"name": "OCL_REGION_0", "type": "clc_region"})
        clocks = ET.SubElement(core, "kernelClocks")
        for number, clock in enumerate(self.clocks):
            ET.SubElement(clocks, "clock", {"port": clock.name, "frequency": f"{clock.mhz}MHz", "id": str(number)})
        for kernel in self.kernels:
            attributes = {"name": kernel.name, "language": "c", "vlnv": kernel.vlnv, "interrupt": "true"}
            attributes["hwControlProtocol"] = kernel.protocol.name.lower()
            element = ET.SubElement(core, "kernel", attributes)
            element.extend(kernel.elements())
            window = next((hex(p.range_nbytes) for p in kernel.ports if p.name == CONTROL), "0x1000")
            for unit in (u for u in self.units if u.kernel == kernel.name):
                instance = ET.SubElement(element, "instance", {"name": unit.name})
                ET.SubElement(instance, "addrRemap", {"base": hex(unit.base), "range": window, "port": CONTROL})
        ET.indent(project)
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(project, encoding="unicode") + "\n"


def _check_banks(banks: tuple[Bank, ...]) -> None:
    end, before = 0, ""
    for bank in sorted(banks, key=lambda b: b.base):
        if not _fits(bank.tag, _TAG_MAX):
            raise ValueError(f"bank {bank.tag!r}: 1 to {_TAG_MAX} ASCII characters")
        if bank.nbytes <= 0 or bank.nbytes % 1024 or bank.base + bank.nbytes > 1 << 64:
            raise ValueError(f"bank {bank.tag!r} of {bank.nbytes} bytes; a multiple of 1024 above 0, below 2**64")
        if bank.base < end:
            raise ValueError(f"bank {bank.tag!r} begins at {bank.base:#x}, inside {before!r}, which ends at {end:#x}")
        end, before = bank.base + bank.nbytes, bank.tag


def _fits(name: str, most: int) -> bool:
    return bool(name) and name.isascii() and name.isprintable() and len(name) <= most


def _table(
    container: Container, kind: SectionKind, file: str, read: Callable[[Section, str], tuple[_Row, ...]]
) -> tuple[_Row, ...]:
    section = container.section(kind)
    return read(section, file) if section else ()


def _kernels(container: Container, file: str) -> tuple[Kernel, ...]:
    section = container.section(SectionKind.EMBEDDED_METADATA)
    if section is None:
        return ()

    def fail(text: str) -> XclbinError:
        return XclbinError(text, file=file, section=section.label, offset=section.offset)

    return tuple(Kernel.of(element, fail) for element in parse_xml(section.data, fail).iter("kernel"))
