# SPDX-License-Identifier: Apache-2.0
"""Folders that look like /sys of machines with cards: PCI paths, P2P files, NVMe drives and their block devices."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

GIB = 1 << 30
ENABLED: Mapping[str, int] = {"bar": 4 * GIB, "exp_bar": 4 * GIB, "rbar": 4 * GIB}
VBNV = "xilinx_u2_gen3x4_xdma_gc_base_2"


class Tree:
    """Below `root`: one call adds one thing. Paths under `devices` are those that links resolve to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("bus/pci/devices", "class/nvme", "dev/block", "devices", "module"):
            (root / folder).mkdir(parents=True, exist_ok=True)

    def function(self, *path: str, vendor: str = "0x1022") -> Path:
        """A PCI function by the addresses from its root port down; those above it are made too."""
        place = self.root / "devices" / "pci0000:00"
        for address in path:
            place = place / address
            place.mkdir(parents=True, exist_ok=True)
            if not (place / "vendor").exists():
                (place / "vendor").write_text("0x1022\n")
            link = self.root / "bus/pci/devices" / address
            if not link.is_symlink():
                link.symlink_to(place)
        (place / "vendor").write_text(f"{vendor}\n")
        return place

    def card(self, *path: str, config: Mapping[str, int] | None = ENABLED, host_memory: bool | None = True) -> None:
        """A user function of a card with XRT's driver; the management function stands beside it."""
        place = self.function(*path, vendor="0x10ee")
        manager = self.function(*path[:-1], path[-1].removesuffix(".1") + ".0", vendor="0x10ee")
        for function, driver in ((place, "xocl"), (manager, "xclmgmt")):
            (self.root / "module" / driver).mkdir(exist_ok=True)
            (self.root / "module" / driver / "version").write_text("2.13.466,abc\n")
            folder = self.root / "bus/pci/drivers" / driver
            folder.mkdir(parents=True, exist_ok=True)
            (function / "driver").symlink_to(folder)
            (function / "rom.u.1").mkdir()
            (function / "rom.u.1" / "VBNV").write_text(f"{VBNV}\n")
        if config is not None:
            (place / "p2p.u.7").mkdir()
            (place / "p2p.u.7" / "config").write_text("".join(f"{k}:{v}\n" for k, v in config.items()))
            if host_memory is not None:
                (place / "p2p.u.7" / "p2p_enable").write_text(f"{int(host_memory)}\n")

    def drive(self, name: str, *path: str, device: int | None = None, partition: int | None = None) -> None:
        """An NVMe controller with one namespace; device numbers as `os.makedev` gives them."""
        controller = self.function(*path, vendor="0x144d") / "nvme" / name
        space = controller / f"{name}n1"
        space.mkdir(parents=True)
        (self.root / "class/nvme" / name).symlink_to(controller)
        if device is not None:
            self.block(device, space)
        if partition is not None:
            part = space / f"{name}n1p1"
            part.mkdir()
            (part / "partition").write_text("1\n")
            self.block(partition, part)

    def block(self, device: int, place: Path) -> None:
        (self.root / "dev/block" / f"{os.major(device)}:{os.minor(device)}").symlink_to(place)


def smartssd(
    root: Path, device: int | None = None, config: Mapping[str, int] | None = ENABLED, host_memory: bool | None = True
) -> Tree:
    """One SmartSSD: a switch with the drive nvme0 and the card 0000:3e:00.1 below; another drive elsewhere."""
    tree = Tree(root)
    upstream = ("0000:00:01.1", "0000:3b:00.0")
    tree.drive("nvme0", *upstream, "0000:3c:00.0", "0000:3d:00.0", device=device)
    tree.card(*upstream, "0000:3c:01.0", "0000:3e:00.1", config=config, host_memory=host_memory)
    tree.drive("nvme1", "0000:00:01.2", "0000:41:00.0", device=os.makedev(259, 90))
    return tree
