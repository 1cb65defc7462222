# SPDX-License-Identifier: Apache-2.0
"""Where XRT lies on this machine and what its user has set. No other module of cards reads the environment."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearkv_driver.bounded_file import TEXT_NBYTES_MAX, read_file

_AMD = Path("/opt/xilinx/xrt")
_DEBIAN = (Path("/usr/include/xrt"), Path("/usr/include"))


@dataclass(frozen=True)
class Places:
    """`root`: XILINX_XRT; `emulation`: XCL_EMULATION_MODE; `xclbin`: NEARKV_XCLBIN; each "" where it is not set.

    `python_path` is where modules are looked for, `sysfs` where the kernel's files lie.
    """

    root: str = ""
    emulation: str = ""
    xclbin: str = ""
    python_path: tuple[str, ...] = ()
    sysfs: Path = Path("/sys")

    @classmethod
    def of(cls, environment: Mapping[str, str] | None = None, path: Sequence[str] | None = None) -> Places:
        found = os.environ if environment is None else environment
        return cls(
            root=found.get("XILINX_XRT", ""),
            emulation=found.get("XCL_EMULATION_MODE", ""),
            xclbin=found.get("NEARKV_XCLBIN", ""),
            python_path=tuple(sys.path if path is None else path),
        )

    def roots(self) -> list[Path]:
        """Folders of XRT, the user's first."""
        return [Path(self.root), _AMD] if self.root else [_AMD]

    def version(self) -> str:
        """What XRT's own file says of its version; "" where there is none."""
        for root in self.roots():
            try:
                found = json.loads(read_file(root / "version.json", TEXT_NBYTES_MAX))
                return str(found["BUILD_VERSION"])
            except (ValueError, TypeError, KeyError, RecursionError):
                continue
        return ""

    def include_folders(self) -> list[tuple[Path, Path | None]]:
        """Where headers may lie, each with the folder of the libraries that belong to them (None: the linker's own)."""
        found: list[tuple[Path, Path | None]] = []
        for root in self.roots():
            found += [(root / "include", root / "lib"), (root / "include" / "xrt", root / "lib")]
        return found + [(folder, None) for folder in _DEBIAN]

    def python_folders(self) -> list[Path]:
        """Where pyxrt may lie."""
        return [*(Path(folder or ".") for folder in self.python_path), *(root / "python" for root in self.roots())]
