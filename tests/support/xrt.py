# SPDX-License-Identifier: Apache-2.0
"""What tests against the real XRT share: a visible skip where it is missing, and C++ programs of ours that use it."""

from __future__ import annotations

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

import platformdirs
import pytest
from nearkv_driver.errors import TransportUnavailable
from nearkv_emulation.build import Compiler
from nearkv_emulation.xrt_run.installation import Installation, find_installation

from tests.support.cli import ROOT, TIMEOUT_S, command, environment

SOURCES = Path(__file__).parents[1] / "xrt"
_HEADERS = (Path("/usr/include/xrt"), Path("/opt/xilinx/xrt/include"))
_OPTIONS = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-pthread")


@cache
def installation() -> Installation:
    """The machine's XRT; the test is skipped where there is none."""
    try:
        return find_installation({}, uid=os.getuid())
    except TransportUnavailable as error:
        pytest.skip(str(error))


@cache
def program(name: str) -> Path:
    """tests/xrt/NAME.cpp, compiled once per source and compiler; skipped where XRT's headers are missing."""
    found = installation()
    headers = next((folder for folder in _HEADERS if (folder / "xrt" / "xrt_kernel.h").is_file()), None)
    if headers is None:
        pytest.skip("XRT's headers are missing: apt-get install libxrt-dev")
    if not Path("/usr/include/uuid/uuid.h").is_file():
        pytest.skip("the header uuid/uuid.h is missing: apt-get install uuid-dev")
    source, compiler = SOURCES / f"{name}.cpp", Compiler()
    key = hashlib.sha256(source.read_bytes() + repr((_OPTIONS, compiler.describe(()), found.version)).encode())
    target = platformdirs.user_cache_path("nearkv") / "xrt-tests" / f"{name}-{key.hexdigest()[:16]}"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f"{target.name}.{os.getpid()}")
        libraries = [f"-L{found.libraries}", "-lxrt_coreutil", "-luuid"]
        line = [compiler.path(), *_OPTIONS, f"-I{headers}", str(source), "-o", str(scratch), *libraries]
        done = subprocess.run(line, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        os.replace(scratch, target)
    return target


def direct_io(folder: Path) -> None:
    """Skips where files of `folder` cannot be opened with O_DIRECT."""
    path = folder / "direct"
    path.touch()
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError as error:
        pytest.skip(f"{folder}: its file system refuses O_DIRECT ({error.strerror})")


def under_xrt(temporary: Path, line: list[str], *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program under `nearkv xrt-emulate`; skipped where XRT is not installed."""
    installation()
    return subprocess.run(
        command("xrt-emulate", "--timeout", str(TIMEOUT_S - 20), *options, "--", *line),
        env={**environment(temporary), **variables},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=False,
        start_new_session=True,
    )
