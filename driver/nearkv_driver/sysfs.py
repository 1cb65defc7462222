# SPDX-License-Identifier: Apache-2.0
"""What sysfs says of cards, NVMe drives and the PCI bridges above them. Reads files under a root; opens no device."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

XILINX = "0x10ee"
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True)
class PciCard:
    """A PCI function of Xilinx. `driver`: the kernel module that has it, "" for none; `shell`: its platform's name."""

    bdf: str
    driver: str
    shell: str

    @property
    def user(self) -> bool:
        """Whether this is the function that programs use; the other one manages the card."""
        return self.driver == "xocl" or (not self.driver and not self.bdf.endswith(".0"))


@dataclass(frozen=True)
class Drive:
    """An NVMe controller: `name` as in /dev, `bdf` its PCI address."""

    name: str
    bdf: str


@dataclass(frozen=True)
class Sysfs:
    """The kernel's view of cards and drives below `root`. What is missing or unreadable counts as not there."""

    root: Path = Path("/sys")

    def cards(self) -> list[PciCard]:
        """All PCI functions of Xilinx, by address."""
        found = []
        for place in sorted(self._functions().glob("*")):
            if _ADDRESS.fullmatch(place.name) and _text(place / "vendor") == XILINX:
                shell = next((_text(file) for file in sorted(place.glob("rom.*/VBNV"))), "")
                driver = place / "driver"
                found.append(PciCard(place.name, driver.resolve().name if driver.exists() else "", shell))
        return found

    def bridges(self, bdf: str) -> tuple[str, ...]:
        """PCI addresses from the root port down to the function itself; empty where it does not exist."""
        place = self._functions() / bdf
        return _addresses(place.resolve()) if place.exists() else ()

    def drives(self) -> list[Drive]:
        """NVMe controllers on PCI, by name."""
        found = []
        for place in sorted((self.root / "class" / "nvme").glob("nvme*")):
            addresses = _addresses(place.resolve())
            if addresses:
                found.append(Drive(place.name, addresses[-1]))
        return found

    def nearest_drives(self, bdf: str) -> list[Drive]:
        """The drives that share the bridge closest to a card; none where no bridge above the card has a drive below."""
        card = self.bridges(bdf)
        shared = [(_shared(card, self.bridges(drive.bdf)), drive) for drive in self.drives()]
        most = max((depth for depth, _ in shared), default=0)
        return [drive for depth, drive in shared if depth == most > 0]

    def drives_of(self, device: int) -> list[Drive]:
        """The NVMe controllers behind a block device number (`st_dev`); empty when it is on none, or also elsewhere."""
        place = self.root / "dev" / "block" / f"{os.major(device)}:{os.minor(device)}"
        return self._below(place.resolve()) if place.exists() else []

    def p2p_config(self, bdf: str) -> dict[str, int] | None:
        """The numbers of the card's P2P file, in bytes; None where the card has none."""
        files = sorted((self._functions() / bdf).glob("p2p.u.*/config"))
        if not files:
            return None
        numbers = {}
        for line in _text(files[0]).splitlines():
            name, _, value = line.partition(":")
            if re.fullmatch(r"-?[0-9]+", value.strip()):
                numbers[name.strip()] = int(value)
        return numbers

    def p2p_enabled(self, bdf: str) -> bool | None:
        """Whether the host has memory behind the P2P BAR; None where the driver does not say."""
        files = sorted((self._functions() / bdf).glob("p2p.u.*/p2p_enable"))
        return _text(files[0]) == "1" if files else None

    def modules(self) -> dict[str, str]:
        """XRT's kernel modules that are loaded, each with its version ("" where it has none)."""
        places = {name: self.root / "module" / name for name in ("xocl", "xclmgmt")}
        return {name: _text(place / "version") for name, place in places.items() if place.is_dir()}

    def iommu(self) -> bool:
        """Whether an IOMMU stands between devices and memory."""
        groups = self.root / "kernel" / "iommu_groups"
        return groups.is_dir() and any(groups.iterdir())

    def _below(self, block: Path) -> list[Drive]:
        """A block device, a partition of one, one made of others (LVM, md), or a namespace with several paths."""
        disk = block.parent if (block / "partition").exists() else block
        slaves = sorted((disk / "slaves").glob("*")) if (disk / "slaves").is_dir() else []
        if slaves:
            parts = [self._below(slave.resolve()) for slave in slaves]
            return [drive for part in parts for drive in part] if all(parts) else []
        if disk.parent.parent.name == "nvme-subsystem":
            paths = [place.resolve() for place in sorted(disk.parent.glob("nvme*")) if place.is_symlink()]
            addresses = {_addresses(path)[-1] for path in paths if _addresses(path)}
        else:
            addresses = set(_addresses(disk)[-1:])
        return [drive for drive in self.drives() if drive.bdf in addresses]

    def _functions(self) -> Path:
        return self.root / "bus" / "pci" / "devices"


def device_of(folder: Path, stat: Callable[[Path], os.stat_result] = os.stat) -> int:
    """The device number of the file system that holds a folder, or the nearest one above it that exists."""
    folder = folder.absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return stat(folder).st_dev


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    depth = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        depth += 1
    return depth


def _addresses(path: Path) -> tuple[str, ...]:
    return tuple(part for part in path.parts if _ADDRESS.fullmatch(part))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
