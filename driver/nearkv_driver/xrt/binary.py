# SPDX-License-Identifier: Apache-2.0
"""What an xclbin file says of our kernel: unit, memory, platform; and whether it is for this card. Opens no card."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nearkv_driver import regmap
from nearkv_driver.errors import BuildMismatch, TransportUnavailable
from nearkv_driver.transport import Bank
from nearkv_driver.xclbin import Container, Mode, SectionKind, XclbinError, nearkv_kernel, read_container, tables

# `xilinx_u2_gen3x4_xdma_gc_2_202110_1` is built on the shell `xilinx_u2_gen3x4_xdma_gc_base_2`.
_RELEASE = re.compile(r"_20[0-9]{4}_[0-9]+$")
_UUID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_EMULATION = (Mode.HW_EMU, Mode.SW_EMU)


@dataclass(frozen=True)
class Binary:
    """`unit` as XRT names it; `bank` is the one that all masters are linked to, `group` its number for XRT."""

    path: Path
    uuid: str
    platform: str
    mode: int
    unit: str
    bank: Bank
    group: int
    masters: Mapping[str, int]
    interfaces: frozenset[str]


def read_binary(path: str, unit: str, card: str) -> Binary:
    """`unit`: the instance, or "" where the file has one. TransportUnavailable names the file and what is wrong."""
    file = Path(path)
    try:
        container = read_container(file)
        return _binary(container, file, unit)
    except XclbinError as error:
        raise TransportUnavailable(
            str(error), card=card, remedy="give the .xclbin that v++ linked for this card (nearkv xclbin info FILE)"
        ) from error


def check_platform(binary: Binary, shell: str, interface: str, *, emulated: bool, card: str) -> None:
    """BuildMismatch, naming both platforms, when the file is for another card; a shell without a name is not judged."""
    if not emulated and binary.mode in _EMULATION:
        mode = Mode(binary.mode).name.lower()
        raise BuildMismatch(f"mode of {binary.path}", card=card, wanted="a file for hw", found=f"one for {mode}")
    if not shell or interface.replace("-", "").lower() in binary.interfaces or same_platform(binary.platform, shell):
        return
    raise BuildMismatch(f"platform of {binary.path}", card=card, wanted=binary.platform, found=shell)


def same_platform(binary: str, shell: str) -> bool:
    """Whether a binary's platform and a shell's name are those of one card; XRT names the two differently."""
    wanted, found = (_RELEASE.sub("", name.lower()).replace("_base", "") for name in (binary, shell))
    return wanted == found


def _binary(container: Container, file: Path, wanted: str) -> Binary:
    def fail(text: str) -> XclbinError:
        return XclbinError(text, file=str(file))

    layout = container.section(SectionKind.IP_LAYOUT)
    topology = container.section(SectionKind.GROUP_TOPOLOGY) or container.section(SectionKind.MEM_TOPOLOGY)
    links = container.section(SectionKind.GROUP_CONNECTIVITY) or container.section(SectionKind.CONNECTIVITY)
    if layout is None or topology is None or links is None:
        raise fail("IP_LAYOUT, MEM_TOPOLOGY or CONNECTIVITY is missing: no linked kernel is in this file")
    rows = tables.read_units(layout, str(file))
    banks = tables.read_banks(topology, str(file))
    units = {row.name.partition(":")[2]: i for i, row in enumerate(rows) if row.name.partition(":")[0] == regmap.KERNEL}
    if not units:
        names = ", ".join(row.name for row in rows) or "none"
        raise fail(f"no unit of kernel {regmap.KERNEL}; units: {names}")
    if wanted and wanted not in units:
        raise fail(f"no unit {wanted!r} of {regmap.KERNEL}; units: {', '.join(units)}")
    if not wanted and len(units) > 1:
        raise fail(f"{len(units)} units of {regmap.KERNEL}: name one of {', '.join(units)} with cu=NAME")
    name = wanted or next(iter(units))
    arguments = {a.index: a.name for a in nearkv_kernel().arguments}
    reached = {
        arguments[c.argument]: c.bank
        for c in tables.read_connections(links, str(file), len(rows), len(banks))
        if c.unit == units[name] and c.argument in arguments
    }
    missing = [a for a in arguments.values() if a not in reached]
    if missing:
        raise fail(f"unit {name}: argument {missing[0]} is linked to no memory")
    if len(set(reached.values())) > 1:
        found = ", ".join(f"{a} on {banks[b].tag}" for a, b in reached.items())
        raise fail(f"unit {name}: all arguments must be linked to one bank, found {found}")
    group = reached["kv"]
    row = banks[group]
    return Binary(
        path=file,
        uuid=str(container.header.uuid),
        platform=container.header.platform,
        mode=container.header.mode,
        unit=f"{regmap.KERNEL}:{{{name}}}",
        bank=Bank(row.tag, 0, row.base, row.nbytes),
        group=group,
        masters=dict.fromkeys(arguments.values(), 0),
        interfaces=_interfaces(container),
    )


def _interfaces(container: Container) -> frozenset[str]:
    """UUIDs, without dashes, that the partition's metadata (JSON or a device tree blob) holds as text."""
    section = container.section(SectionKind.PARTITION_METADATA)
    data = section.data.replace(b"-", b"").lower() if section else b""
    return frozenset(found.decode() for found in _UUID.findall(data))
