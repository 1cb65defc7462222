# SPDX-License-Identifier: Apache-2.0
"""What somebody wants built, checked before anything else is looked at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nearkv_driver.bitstream.errors import BuildRefused
from nearkv_driver.bitstream.platforms import Platform, load_platforms

_SAFE = re.compile(r"[\w./+@=,:~-]", re.ASCII)
FREQUENCY_MHZ = range(50, 501)


class Flow(StrEnum):
    """Which form of the kernel."""

    HLS = "hls"
    RTL = "rtl"


class Target(StrEnum):
    """`hw` is a bitstream for a card, `hw_emu` a simulation model for the vendor's simulator."""

    HW = "hw"
    HW_EMU = "hw_emu"


@dataclass(frozen=True)
class Request:
    """`config` is a link configuration of one's own; `cus` and `frequency_mhz` None take what it or the card says."""

    platform: Platform
    flow: Flow
    target: Target
    output: Path
    cus: int | None = None
    frequency_mhz: int | None = None
    config: Path | None = None
    any_vitis: bool = False
    allow_failed_timing: bool = False

    def __post_init__(self) -> None:
        if self.cus is not None and not 1 <= self.cus <= self.platform.cus_max:
            raise BuildRefused(f"{self.cus} compute units; {self.platform.key} takes 1 to {self.platform.cus_max}")
        if self.frequency_mhz is not None and self.frequency_mhz not in FREQUENCY_MHZ:
            allowed = f"{FREQUENCY_MHZ[0]} to {FREQUENCY_MHZ[-1]}"
            raise BuildRefused(f"a kernel clock of {self.frequency_mhz} MHz; {allowed} MHz is allowed")
        if self.output.exists() and not self.output.is_dir():
            raise BuildRefused(f"{self.output} is no folder")
        check_path(self.output.absolute())


def check_path(path: Path) -> None:
    """BuildRefused for characters that mean something to Tcl, make or a shell: the vendor's tools quote nothing."""
    for character in str(path):
        if not _SAFE.fullmatch(character):
            raise BuildRefused(f"{path}: the vendor's tools take no path with {character!r}")


def platform_named(key: str) -> Platform:
    """BuildRefused lists the cards that there are."""
    platforms = load_platforms()
    if key not in platforms:
        raise BuildRefused(f"platform {key!r}; there are {', '.join(platforms)}")
    return platforms[key]


def flow_named(name: str) -> Flow:
    """BuildRefused for an unknown name."""
    if name not in list(Flow):
        raise BuildRefused(f"flow {name!r}; there are {', '.join(Flow)}")
    return Flow(name)


def target_named(name: str) -> Target:
    """BuildRefused for an unknown name."""
    if name not in list(Target):
        raise BuildRefused(f"target {name!r}; there are {', '.join(Target)}")
    return Target(name)
