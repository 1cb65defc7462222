# SPDX-License-Identifier: Apache-2.0
"""Machines with a fake pyxrt, a folder that looks like /sys, and an xclbin: where tests open `xrt:` cards."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from nearkv_driver.errors import TransportUnavailable
from nearkv_driver.registry import parse_url
from nearkv_driver.xrt.api import XrtApi
from nearkv_driver.xrt.card import XrtCard
from nearkv_driver.xrt.opening import Machine, open_card
from nearkv_driver.xrt.places import Places

from tests.support import fake_pyxrt, sysfs_trees
from tests.support.fake_pyxrt import BDF, Script


@dataclass(frozen=True)
class Rig:
    """A folder `ssd` on the drive of the card BDF; `url` has what a good card needs, `more` is added to it."""

    folder: Path
    machine: Machine
    script: Script

    @property
    def ssd(self) -> Path:
        return self.folder / "ssd"

    @property
    def binary(self) -> Path:
        return self.folder / "kernel.xclbin"

    def url(self, more: str = "", target: str = BDF) -> str:
        return f"xrt:{target}?xclbin={self.binary}&ssd={self.ssd}{more}"

    def open(self, more: str = "", target: str = BDF) -> XrtCard:
        return open_card(parse_url(self.url(more, target)), self.machine)


def rig(folder: Path, script: Script | None = None, **tree: Any) -> Rig:
    """`tree` goes to `sysfs_trees.smartssd`."""
    script = script or Script()
    fake = fake_pyxrt.module(script)
    (folder / "ssd").mkdir(exist_ok=True)
    sysfs_trees.smartssd(folder / "sys", device=(folder / "ssd").stat().st_dev, **tree)
    if not (folder / "kernel.xclbin").exists():
        fake_pyxrt.write_binary(folder / "kernel.xclbin")
    machine = Machine(Places(sysfs=folder / "sys"), load=lambda name: fake, native=no_native)
    return Rig(folder, machine, script)


def no_native(places: Places, note: str) -> XrtApi:
    raise TransportUnavailable("no XRT headers", remedy="install them")


def contract_card(version: str, more: str = "") -> XrtCard:
    """A card of a fresh fake machine; its files go with the process."""
    base = _contract_rig()
    fake = fake_pyxrt.module(Script(version=version))
    return replace(base, machine=replace(base.machine, load=lambda name: fake)).open(more)


@cache
def _contract_rig() -> Rig:
    folder = _folder()
    return rig(Path(folder.name))


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="nearkv-contract-")
