# SPDX-License-Identifier: Apache-2.0
"""What the environment says of Vitis, read here and nowhere else. It starts nothing.

XILINX_VITIS         the folder of Vitis, set by its settings64.sh; v++ is in its bin folder
XILINX_VIVADO        the same for Vivado
PLATFORM_REPO_PATHS  folders with platforms, beside /opt/xilinx/platforms
PATH                 where tools are looked for first
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PLATFORM_FOLDER = Path("/opt/xilinx/platforms")
# Where installers put Vitis; looked into only to say what could be sourced.
INSTALL_FOLDERS = (Path("/tools/Xilinx"), Path("/opt/Xilinx"), Path("/opt/xilinx"))


@dataclass(frozen=True)
class Environment:
    """Empty folders are None; `variables` is everything that a tool is started with."""

    path: str
    vitis: Path | None
    vivado: Path | None
    platform_folders: tuple[Path, ...]
    install_folders: tuple[Path, ...] = INSTALL_FOLDERS
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_environment(environ: Mapping[str, str] | None = None) -> Environment:
    """Reads `os.environ` unless another one is given."""
    env = os.environ if environ is None else environ
    repositories = [Path(part) for part in env.get("PLATFORM_REPO_PATHS", "").split(os.pathsep) if part]
    return Environment(
        path=env.get("PATH", os.defpath),
        vitis=_folder(env, "XILINX_VITIS"),
        vivado=_folder(env, "XILINX_VIVADO"),
        platform_folders=(*repositories, PLATFORM_FOLDER),
        variables=dict(env),
    )


def _folder(env: Mapping[str, str], name: str) -> Path | None:
    text = env.get(name, "")
    return Path(text) if text else None
