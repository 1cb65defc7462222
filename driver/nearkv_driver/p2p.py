# SPDX-License-Identifier: Apache-2.0
"""Whether a drive can write into a card's memory by itself, judged from sysfs: P2P state, and whose drive it is.

Moves no byte: `p2p_check` tries it. What the numbers mean is XRT's own rule (`scan.cpp` of its shim).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from nearkv_driver.filesystem import filesystem_of
from nearkv_driver.sysfs import Drive, Sysfs, device_of

BOUNCE = "or add p2p=bounce to the card URL: slower, through host memory"


class P2p(Enum):
    """Whether drives reach a card's memory."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    REBOOT = "reboot needed"
    REMAPPER = "remapper wrong"
    UNSUPPORTED = "not supported"
    NO_DRIVER = "state not known"


@dataclass(frozen=True)
class P2pState:
    """`found`: what is there; `fix`: what to do when it is not ENABLED."""

    state: P2p
    found: str
    fix: str = ""


def p2p_state(config: Mapping[str, int] | None, bdf: str, host_memory: bool | None = None) -> P2pState:
    """`config`: numbers of the card's P2P file; `host_memory`: whether the host has memory behind the BAR."""
    if config is None:
        return P2pState(P2p.NO_DRIVER, f"no P2P file of {bdf} in sysfs", "load XRT's kernel module: modprobe xocl")
    bar, wanted = config.get("bar", -1), config.get("exp_bar", -1)
    after_reboot, remap = config.get("rbar", -1), config.get("remap", -1)
    sizes = f"BAR of {_size(bar)}, {_size(wanted)} are wanted"
    if bar == -1:
        return P2pState(P2p.UNSUPPORTED, "the card's shell has no P2P BAR", "flash a shell with P2P")
    if after_reboot > bar:
        return P2pState(
            P2p.REBOOT,
            f"{sizes}, {_size(after_reboot)} after the next start of the machine",
            f"reboot warm; if it stays so, the BIOS needs Above 4G Decoding and room for {_size(after_reboot)}",
        )
    if remap > 0 and remap != bar:
        return P2pState(
            P2p.REMAPPER, f"{sizes}; the remapper is set to {_size(remap)}", f"disable and enable P2P: {_enable(bdf)}"
        )
    if bar != wanted:
        return P2pState(
            P2p.DISABLED,
            sizes,
            f"{_enable(bdf)}. The BIOS must have room for a BAR of {_size(wanted)} (Above 4G Decoding); if the machine "
            "does not start afterwards, a cold power cycle undoes it",
        )
    if host_memory is False:
        return P2pState(
            P2p.REBOOT,
            f"enabled on the card, but the host has no memory for its BAR of {_size(bar)}",
            "reboot warm; the BIOS needs Above 4G Decoding",
        )
    return P2pState(P2p.ENABLED, f"enabled, BAR of {_size(bar)}")


def own_drives(sysfs: Sysfs, bdf: str) -> str:
    """The drives that are nearest to a card, for a person to read; "" when there are none."""
    return _names(sysfs.nearest_drives(bdf))


def volume_reason(sysfs: Sysfs, bdf: str, folder: Path | None, device: int | None = None) -> str:
    """Why the drive of a volume's folder cannot reach the card, with what to do; "" when it can."""
    nearest = sysfs.nearest_drives(bdf)
    if not nearest:
        return f"no NVMe drive shares a PCI bridge with {bdf}: use a drive beside the card, {BOUNCE}"
    place = f"name a folder on {_names(nearest)}, the drive of this card, with ssd=FOLDER"
    if folder is None:
        return f"the card URL names no folder on the card's drive: {place}, {BOUNCE}"
    found = sysfs.drives_of(device_of(folder) if device is None else device)
    if not found:
        return f"{folder} lies on {filesystem_of(folder)}, not on NVMe drives alone: {place}, {BOUNCE}"
    strange = [drive for drive in found if drive not in nearest]
    if strange:
        return f"{folder} lies on {_names(strange)}, which is not a drive of the card {bdf}: {place}, {BOUNCE}"
    return ""


def card_reason(sysfs: Sysfs, bdf: str, platform: str, tag: str) -> str:
    """Why the card takes no P2P transfers, with what to do; "" when it takes them."""
    if "u280" in platform and tag.upper().startswith("DDR"):
        return f"a U280 has P2P for its HBM only, and the kernel is linked to {tag}: link it to HBM, {BOUNCE}"
    state = p2p_state(sysfs.p2p_config(bdf), bdf, sysfs.p2p_enabled(bdf))
    return "" if state.state is P2p.ENABLED else f"P2P is {state.state.value}: {state.found}; {state.fix}; {BOUNCE}"


def _enable(bdf: str) -> str:
    return f"xbutil configure --p2p enable --device {bdf} (XRT from 2.18 on: xrt-smi configure)"


def _names(drives: list[Drive]) -> str:
    return ", ".join(f"{drive.name} ({drive.bdf})" for drive in drives)


def _size(nbytes: int) -> str:
    if nbytes < 0:
        return "unknown size"
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:g} {name}"
    return f"{nbytes} bytes"
