# SPDX-License-Identifier: Apache-2.0
"""Which shared libraries are made of the HLS sources, and how. Compiling and caching is `nearkv_driver.compile`."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import platformdirs
from nearkv_driver.compile import BuildError, Compiler, library

__all__ = ["WARNINGS", "BuildError", "Compiler", "Variant", "build", "build_kernel", "hls_folder"]

# Pragmas are for synthesis, and so are the names of loops.
WARNINGS = ("-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Wno-unused-label", "-Wno-psabi")
SOURCE_SUFFIXES = (".cpp", ".hpp", ".h")


class Variant(Enum):
    """Which bodies of the kernel's few switched helpers are compiled; all give the same bits."""

    FAST = ("-O3", "-march=native", "-DNEARKV_FAST")
    # The bodies that synthesis sees, with hardware-width numbers that wrap.
    SYNTHESIS = ("-O2",)
    # The same, and every number that should fit its type, and every stream its depth, is checked.
    CHECKED = ("-O2", "-DNEARKV_CHECKED")


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
    return library(
        name,
        sources,
        (*WARNINGS, *options),
        cache=cache or platformdirs.user_cache_path("nearkv") / "csim",
        contents=_contents(folder),
        compiler=compiler,
        places=tuple(f"-I{folder / sub}" for sub in ("include", "csim_include")),
    )


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(p for p in folder.rglob("*") if p.suffix in SOURCE_SUFFIXES):
        yield str(path.relative_to(folder)), path.read_bytes()
