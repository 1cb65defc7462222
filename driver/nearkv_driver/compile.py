# SPDX-License-Identifier: Apache-2.0
"""Compiles C++ sources into a shared library with g++ and keeps it in a cache. Runs nothing of what it builds.

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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nearkv_driver.errors import TransportUnavailable

COMPILE_TIMEOUT_S = 300


class BuildError(TransportUnavailable):
    """A library could not be built: no compiler, no sources, or the compiler refused them."""


@dataclass(frozen=True)
class Compiler:
    """The C++ compiler by name or path."""

    command: str = "g++"

    def path(self) -> str:
        found = shutil.which(self.command)
        if found is None:
            raise BuildError(
                f"{self.command} not found, and this card needs code that is compiled once",
                remedy="install a C++ compiler (Debian, Ubuntu: apt-get install g++)",
            )
        return found

    def describe(self, options: tuple[str, ...]) -> str:
        """Version and, where `options` ask for the native one, the processor as the compiler sees it."""
        native = [o for o in options if o.startswith("-march")]
        probe = [self.path(), *native, "-E", "-v", "-x", "c++", os.devnull, "-o", os.devnull]
        return _output(probe).replace(tempfile.gettempdir(), "")


def library(
    name: str,
    sources: Sequence[Path],
    options: tuple[str, ...],
    *,
    cache: Path,
    contents: Iterable[tuple[str, bytes]],
    compiler: Compiler | None = None,
    places: tuple[str, ...] = (),
) -> Path:
    """The shared library of `sources`, built if `cache` does not hold it. Raises BuildError.

    `contents`: names and bytes of all files that decide what is built. `places`: options that only say where headers
    and libraries lie; they stand after the sources and are no part of the library's name.
    """
    compiler = compiler or Compiler()
    options = ("-std=c++17", "-fPIC", "-shared", *options)
    digest = hashlib.sha256("\0".join((compiler.describe(options), *options)).encode())
    for file, data in contents:
        digest.update(f"\0{file}\0".encode() + data)
    key = digest.hexdigest()[:16]
    built = cache / f"{name}-{key}.so"
    if built.is_file():
        return built
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f"{name}-{key}.lock"):
            if not built.is_file():
                _compile([compiler.path(), *options, *map(str, sources), *places], built)
    except OSError as error:
        raise BuildError(f"cannot write the compiled {name} to {cache}: {error.strerror or error}") from error
    return built


def _compile(command: list[str], target: Path) -> None:
    """Compiles beside the library and renames, so that nobody loads half a file."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        built = Path(scratch) / target.name
        _output([*command, "-o", str(built)])
        built.replace(target)


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
