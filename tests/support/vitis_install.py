# SPDX-License-Identifier: Apache-2.0
"""An installation of Vitis in a folder, its programs played by `fake_vitis`; with platforms and settings64.sh."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from nearkv_driver.bitstream import load_platforms

from tests.support.fake_vitis import Settings

ROOT = Path(__file__).resolve().parents[2]
_PYTHONPATH = os.pathsep.join(str(ROOT / part) for part in ("driver", "emulation", "."))
# Versions come from the shell: a Python more for each of them would be seconds over all tests.
_PROGRAM = """#!/bin/sh
case "$1" in
--version | -version)
    echo "{banner}"
    exit {code} ;;
esac
PYTHONPATH={paths} exec {python} -m tests.support.fake_vitis {settings} {name} "$@"
"""


@dataclass(frozen=True)
class Installation:
    """Vitis and Vivado of versions each, platforms in `platforms`; `settings` decides how the tools behave."""

    root: Path
    vitis: Path
    vivado: Path
    settings_file: Path

    @property
    def platforms(self) -> Path:
        return self.root / "platforms"

    @property
    def record(self) -> Path:
        return self.root / "record"

    def calls(self) -> list[list[str]]:
        """What the tools were called with, versions not counted."""
        if not self.record.exists():
            return []
        return [json.loads(line) for line in self.record.read_text().splitlines()]

    def environ(self) -> dict[str, str]:
        """As after `source settings64.sh`, and little else."""
        path = os.pathsep.join([str(self.vitis / "bin"), str(self.vivado / "bin"), "/usr/bin", "/bin"])
        return {
            "PATH": path,
            "HOME": str(self.root),
            "XILINX_VITIS": str(self.vitis),
            "XILINX_VIVADO": str(self.vivado),
            "PLATFORM_REPO_PATHS": str(self.platforms),
        }


def install(
    root: Path, version: str = "2021.2", vivado_version: str = "", platforms: bool = True, **behaviour: str
) -> Installation:
    """Makes the folders; `behaviour` are fields of `Settings`."""
    vitis, vivado = root / "Vitis" / version, root / "Vivado" / (vivado_version or version)
    found = Installation(root, vitis, vivado, root / "settings.json")
    found.settings_file.parent.mkdir(parents=True, exist_ok=True)
    found.settings_file.write_text(json.dumps(asdict(Settings(record=str(found.record), **behaviour))))
    banner = "****** v++ v{} (64-bit)\n  **** SW Build 3363252"
    _program(found, vitis, "v++", banner.format(version))
    _program(found, vitis, "emconfigutil", "")
    _program(found, vivado, "vivado", f"Vivado v{vivado_version or version} (64-bit)")
    (vitis / "settings64.sh").write_text(f"export PATH={vitis / 'bin'}:$PATH\n")
    names = [name for platform in load_platforms().values() for name in platform.platforms] if platforms else []
    for name in names:
        (found.platforms / name).mkdir(parents=True, exist_ok=True)
        (found.platforms / name / f"{name}.xpfm").write_text("<platform/>\n")
    return found


def _program(found: Installation, folder: Path, name: str, banner: str, code: int = 0) -> None:
    path = folder / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        _PROGRAM.format(
            banner=banner,
            code=code,
            paths=shlex.quote(_PYTHONPATH),
            python=shlex.quote(sys.executable),
            settings=shlex.quote(str(found.settings_file)),
            name=name,
        )
    )
    path.chmod(0o755)
