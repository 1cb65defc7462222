# SPDX-License-Identifier: Apache-2.0
"""Builds shared libraries from the HLS sources with g++ and keeps them in a cache. Runs nothing of what it builds.

A library is named after everything that went into it: sources, compiler, processor, options. So an edit or another
machine makes a new one, and two processes that want the same one build it once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import platformdirs
from nearkv_driver.errors import TransportUnavailable

COMPILE_TIMEOUT_S = 300
# Pragmas are for synthesis, and so are the names of loops.
WARNINGS = ("-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Wno-unused-label", "-Wno-psabi")
SOURCE_SUFFIXES = (".cpp", ".hpp", ".h")


class BuildError(TransportUnavailable):
    """The HLS sources could not be built: no compiler, no sources, or the compiler refused them."""


class Variant(Enum):
    """Which bodies of the kernel's few switched helpers are compiled; all give the same bits."""

    FAST = ("-O3", "-march=native", "-DNEARKV_FAST")
    # The bodies that synthesis sees, with hardware-width numbers that wrap.
    SYNTHESIS = ("-O2",)
    # The same, and every number that should fit its type, and every stream its depth, is checked.
    CHECKED = ("-O2", "-DNEARKV_CHECKED")


@dataclass(frozen=True)
class Compiler:
    """The C++ compiler by name or path."""

    command: str = "g++"

    def path(self) -> str:
        found = shutil.which(self.command)
        if found is None:
            raise BuildError(
                f"{self.command} not found, and the emulated card compiles the kernel once",
                remedy="install a C++ compiler (Debian, Ubuntu: apt-get install g++)",
            )
        return found

    def describe(self, options: tuple[str, ...]) -> str:
        """Version and, where `options` ask for the native one, the processor as the compiler sees it."""
        native = [o for o in options if o.startswith("-march")]
        probe = [self.path(), *native, "-E", "-v", "-x", "c++", os.devnull, "-o", os.devnull]
        return _output(probe).replace(tempfile.gettempdir(), "")


def hls_folder() -> Path:
    """Where the HLS sources lie: beside this package in a wheel, else in the repository."""
    installed = Path(__file__).resolve().parent / "_hls"
    repository = Path(__file__).resolve().parents[2] / "fpga" / "hls"
    for folder in (installed, repository):
        if (folder / "src" / "nearkv_attend.cpp").is_file():
            return folder
    raise BuildError(
        f"the kernel's HLS sources are neither in {installed} nor in {repository}", remedy="reinstall nearkv"
    )


def build_kernel(cache: Path | None = None, variant: Variant = Variant.FAST, compiler: Compiler | None = None) -> Path:
    """The shared library of the kernel, built if the cache does not hold it. Raises BuildError."""
    folder = hls_folder()
    sources = [folder / "src" / "nearkv_attend.cpp", folder / "tb" / "csim_entry.cpp"]
    return build("nearkv_attend", folder, sources, ("-DNEARKV_PORT_MODEL", *variant.value), cache, compiler)


def build(
    name: str,
    folder: Path,
    sources: list[Path],
    options: tuple[str, ...],
    cache: Path | None = None,
    compiler: Compiler | None = None,
) -> Path:
    """Compiles sources of an HLS folder into a shared library. Raises BuildError."""
    compiler = compiler or Compiler()
    cache = cache or platformdirs.user_cache_path("nearkv") / "csim"
    options = ("-std=c++17", "-fPIC", "-shared", *WARNINGS, *options)
    key = _key(compiler.describe(options), options, folder)
    library = cache / f"{name}-{key}.so"
    if library.is_file():
        return library
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f"{name}-{key}.lock"):
            if not library.is_file():
                includes = [f"-I{folder / sub}" for sub in ("include", "csim_include")]
                _compile([compiler.path(), *options, *includes, *map(str, sources)], library)
    except OSError as error:
        raise BuildError(f"cannot write the compiled kernel to {cache}: {error.strerror or error}") from error
    return library


def _key(compiler: str, options: tuple[str, ...], folder: Path) -> str:
    digest = hashlib.sha256("\0".join((compiler, *options)).encode())
    for path in sorted(p for p in folder.rglob("*") if p.suffix in SOURCE_SUFFIXES):
        digest.update(f"\0{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(command: list[str], library: Path) -> None:
    """Compiles beside the library and renames, so that nobody loads half a file."""
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        built = Path(scratch) / library.name
        _output([*command, "-o", str(built)])
        built.replace(library)


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{command[0]} did not finish within {COMPILE_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise BuildError(f"{command[0]} failed with exit status {done.returncode}:\n{done.stderr}")
    return done.stdout + done.stderr


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
