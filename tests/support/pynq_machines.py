# SPDX-License-Identifier: Apache-2.0
"""Machines with a fake PYNQ, an XRT of its time, a folder that looks like /sys, and an xclbin, for `pynq:` cards."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from nearkv_driver.pynq import open_card
from nearkv_driver.registry import parse_url
from nearkv_driver.xrt.card import XrtCard
from nearkv_driver.xrt.opening import Machine
from nearkv_driver.xrt.places import Places

from tests.support import fake_pynq, sysfs_trees
from tests.support.fake_pynq import Script
from tests.support.fake_pyxrt import BDF, write_binary
from tests.support.xrt_machines import no_native


@dataclass(frozen=True)
class PynqRig:
    """As `xrt_machines.Rig`."""

    folder: Path
    machine: Machine
    script: Script

    @property
    def binary(self) -> Path:
        return self.folder / "kernel.xclbin"

    def url(self, more: str = "", target: str = BDF) -> str:
        return f"pynq:{target}?xclbin={self.binary}&ssd={self.folder / 'ssd'}{more}"

    def open(self, more: str = "", target: str = BDF) -> XrtCard:
        return open_card(parse_url(self.url(more, target)), self.machine)

    def where(self, **places: Any) -> PynqRig:
        return replace(self, machine=replace(self.machine, places=replace(self.machine.places, **places)))


def rig(folder: Path, script: Script | None = None) -> PynqRig:
    script = script or Script()
    (folder / "ssd").mkdir(parents=True)
    (folder / "version.json").write_text(json.dumps({"BUILD_VERSION": "2.13.466"}))
    sysfs_trees.smartssd(folder / "sys", device=(folder / "ssd").stat().st_dev)
    write_binary(folder / "kernel.xclbin")
    places = Places(root=str(folder), sysfs=folder / "sys")
    return PynqRig(folder, Machine(places, load=fake_pynq.loader(script), native=no_native), script)


def contract_card() -> XrtCard:
    """A card of a fresh fake machine; its files go with the process."""
    base = _contract_rig()
    return replace(base, machine=replace(base.machine, load=fake_pynq.loader(Script()))).open()


@cache
def _contract_rig() -> PynqRig:
    return rig(Path(_folder().name))


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="nearkv-contract-")
