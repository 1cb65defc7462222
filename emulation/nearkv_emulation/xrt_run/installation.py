# SPDX-License-Identifier: Apache-2.0
"""Where XRT lies on this machine, which version it is and what is known to be wrong with it. Changes nothing."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearkv_driver.errors import TransportUnavailable

SHIM = "libxrt_hwemu.so.2"
_REMEDY = "Debian 12 and 13: apt-get install libxrt1 libxrt-dev libxrt-utils uuid-dev; else install AMD's XRT package"
_VERSION = re.compile(r"\.so\.(\d+)\.(\d+)")
# Debian's build of 2.13 does not keep the address that realloc gave it for the message buffer.
_BROKEN_BUFFER = re.compile(r"202210\.2\.13\.466\+dfsg-8")
_AS_ROOT = (2, 25)  # from here on settings are ignored in processes of root


@dataclass(frozen=True)
class Installation:
    """`libraries`: the folder of the shim. `root`: a usable XILINX_XRT, if the machine has one."""

    libraries: Path
    version: tuple[int, int]
    root: Path | None = None
    pad_messages: bool = False

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))


def find_installation(
    environ: Mapping[str, str],
    folders: Sequence[Path] | None = None,
    package_version: Callable[[], str] | None = None,
    uid: int = -1,
) -> Installation:
    """XILINX_XRT goes first, then the system's library folders. Raises TransportUnavailable with what to install."""
    root = Path(environ["XILINX_XRT"]) if environ.get("XILINX_XRT") else None
    places = [] if root is None else [root / "lib", root / "lib64"]
    for folder in (*places, *(system_folders() if folders is None else folders)):
        shim = folder / SHIM
        if not shim.exists():
            continue
        version = _version(shim)
        if uid == 0 and version >= _AS_ROOT:
            raise TransportUnavailable(
                f"XRT {'.'.join(map(str, version))} takes no emulation settings in processes of root",
                remedy="run this as an ordinary user",
            )
        packaged = folder not in places
        broken = packaged and bool(_BROKEN_BUFFER.match((package_version or _debian_version)()))
        return Installation(folder, version, None if packaged else root, broken)
    looked = ", ".join(map(str, (*places, *(system_folders() if folders is None else folders))))
    raise TransportUnavailable(f"XRT's emulation library {SHIM} is in none of {looked}", remedy=_REMEDY)


def system_folders() -> tuple[Path, ...]:
    """Where distributions and AMD put XRT's libraries."""
    triplet = sysconfig.get_config_var("MULTIARCH")
    multiarch = (Path("/usr/lib") / str(triplet),) if triplet else ()
    return (*multiarch, Path("/usr/lib64"), Path("/usr/lib"), Path("/opt/xilinx/xrt/lib"))


def _version(shim: Path) -> tuple[int, int]:
    match = _VERSION.search(shim.resolve().name)
    # The name ends in the version in every release seen; another is taken as the oldest, which has most traps.
    return (int(match[1]), int(match[2])) if match else (2, 13)


def _debian_version() -> str:
    """The version of the package that holds the shim; empty where dpkg does not know it."""
    command = ["dpkg-query", "--show", "--showformat=${Version}", "libxrt1"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
