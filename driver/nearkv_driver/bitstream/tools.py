# SPDX-License-Identifier: Apache-2.0
"""Finds v++, Vivado, emconfigutil and the platform, and says in plain words what is missing or of a wrong version.

Starts the tools only to ask for their versions.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from nearkv_driver.bitstream.environment import Environment
from nearkv_driver.bitstream.errors import ToolUnusable
from nearkv_driver.bitstream.platforms import Platform
from nearkv_driver.bitstream.request import Request, Target

_VERSION = re.compile(r"\bv(20\d\d\.\d)")
_VERSION_TIMEOUT_S = 300  # the first start from a network drive


@dataclass(frozen=True)
class Tool:
    """A program of Vitis; `version` as it names itself, such as `2022.2`."""

    path: Path
    version: str


@dataclass(frozen=True)
class Tools:
    """`platform_name` is one of the platform's names; `platform_file` its .xpfm file."""

    vpp: Tool
    vivado: Tool
    emconfigutil: Path | None
    platform_name: str
    platform_file: Path


def find_tools(environment: Environment, request: Request) -> Tools:
    """Everything that the request needs. ToolUnusable names what was found and what is needed."""
    platform = request.platform
    vpp = _find(environment, "v++", environment.vitis, "XILINX_VITIS", platform)
    version = _version(vpp, "--version", environment)
    if version not in platform.vitis and not request.any_vitis:
        raise ToolUnusable(
            f"{vpp} is Vitis {version}; platform {platform.key} needs {_either(platform.vitis)}"
            f"{_installed(environment, platform)}. --any-vitis goes on with {version}"
        )
    vivado = _find(environment, "vivado", environment.vivado, "XILINX_VIVADO", platform)
    other = _version(vivado, "-version", environment)
    if other != version:
        raise ToolUnusable(f"{vpp} is of {version} and {vivado} of {other}; both must be of the same version")
    util = None
    if request.target is Target.HW_EMU:
        util = _emconfigutil(environment, vpp)
    name, file = _platform(environment, platform)
    return Tools(Tool(vpp, version), Tool(vivado, other), util, name, file)


def tool_variables(environment: Environment, tools: Tools) -> dict[str, str]:
    """The environment for the tools: that of the caller, with the folders of the tools that were found."""
    folders = dict.fromkeys(str(tool.path.parent) for tool in (tools.vpp, tools.vivado))
    variables = dict(environment.variables)
    variables["PATH"] = os.pathsep.join([*folders, environment.path])
    variables.setdefault("XILINX_VITIS", str(tools.vpp.path.parent.parent))
    variables.setdefault("XILINX_VIVADO", str(tools.vivado.path.parent.parent))
    return variables


def _find(environment: Environment, name: str, folder: Path | None, variable: str, platform: Platform) -> Path:
    """A program in PATH or in the folder that a variable names; one in PATH must not lie outside that folder."""
    beside = folder / "bin" / name if folder else None
    on_path = shutil.which(name, path=environment.path)
    if beside is not None and on_path is not None and not _same(Path(on_path), beside):
        raise ToolUnusable(
            f"PATH has {on_path}, but {variable} is {folder}: two installations are mixed; "
            "open a new shell and source one settings64.sh"
        )
    found = on_path or (str(beside) if beside is not None and os.access(beside, os.X_OK) else None)
    if found is not None:
        return Path(found)
    looked = f"{variable} is {folder}, which has no bin/{name}" if folder else f"{variable} is not set"
    raise ToolUnusable(
        f"{name} is not in PATH and {looked}; platform {platform.key} needs Vitis {_either(platform.vitis)}"
        f"{_installed(environment, platform)}"
    )


def _emconfigutil(environment: Environment, vpp: Path) -> Path:
    """XRT may bring one of its own, so the one beside v++ goes first."""
    beside = vpp.parent / "emconfigutil"
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(beside.name, path=environment.path)
    if found is None:
        raise ToolUnusable(f"emconfigutil is neither beside {vpp} nor in PATH, and hw_emu needs it")
    return Path(found)


def _same(first: Path, second: Path) -> bool:
    return first.resolve() == second.resolve() or first.parent.resolve() == second.parent.resolve()


def _version(program: Path, option: str, environment: Environment) -> str:
    try:
        done = subprocess.run(
            [str(program), option],
            env=dict(environment.variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolUnusable(f"{program} {option} cannot be run: {error}") from error
    match = _VERSION.search(done.stdout + done.stderr)
    if done.returncode != 0 or match is None:
        said = " ".join((done.stdout + done.stderr).split())[-200:] or "nothing"
        raise ToolUnusable(f"{program} {option} names no version (exit code {done.returncode}); it said: {said}")
    return match[1]


def _installed(environment: Environment, platform: Platform) -> str:
    """A sentence with installations that could be sourced; those that fit the platform alone, if there are any."""
    scripts = []
    for root in environment.install_folders:
        scripts += sorted([*root.glob("Vitis/20*/settings64.sh"), *root.glob("20*/Vitis/settings64.sh")])
    fit = [script for script in scripts if any(version in script.parts for version in platform.vitis)]
    if fit or scripts:
        what = "run first" if fit else "installed here, though not of these versions"
        return f"; {what}: source {' or source '.join(map(str, fit or scripts))}"
    looked = ", ".join(map(str, environment.install_folders))
    return f"; no Vitis is in {looked}: install it, then source its settings64.sh"


def _platform(environment: Environment, platform: Platform) -> tuple[str, Path]:
    for name in platform.platforms:
        for folder in environment.platform_folders:
            for file in (folder / name / f"{name}.xpfm", folder / f"{name}.xpfm"):
                if file.is_file():
                    return name, file.absolute()
    looked = ", ".join(map(str, environment.platform_folders))
    raise ToolUnusable(
        f"no development platform {_either(platform.platforms)} in {looked}; install the vendor's development package "
        f"of the {platform.title}, or put its folder into PLATFORM_REPO_PATHS"
    )


def _either(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
