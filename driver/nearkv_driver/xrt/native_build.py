# SPDX-License-Identifier: Apache-2.0
"""Builds nearkv's binding of XRT's native C++ API against this machine's headers, once per XRT. Loads nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import platformdirs

from nearkv_driver.compile import BuildError, Compiler, library
from nearkv_driver.xrt.places import Places

SOURCE = Path(__file__).parent / "native" / "nearkv_xrt.cpp"
# load_xclbin is deprecated in newer XRT, which keeps it.
_OPTIONS = ("-O1", "-Wall", "-Wextra", "-Wno-deprecated-declarations")
_PROOF = Path("xrt") / "xrt_device.h"
_VERSIONS = (Path("version.h"), Path("xrt") / "detail" / "version.h")


@dataclass(frozen=True)
class Headers:
    """`folder` is what `-I` names; `libraries` what `-L` names, None for the linker's own folders."""

    folder: Path
    libraries: Path | None


def find_headers(places: Places) -> Headers:
    """BuildError says where was looked."""
    looked = [*places.include_folders()]
    for folder, libraries in looked:
        if (folder / _PROOF).is_file():
            return Headers(folder, libraries)
    raise BuildError(
        f"no XRT headers ({_PROOF}) in {', '.join(str(folder) for folder, _ in looked)}",
        remedy="install XRT's development files (Debian 12: apt-get install libxrt-dev uuid-dev; "
        "cards: AMD's XRT package)",
    )


def build_binding(places: Places, cache: Path | None = None, compiler: Compiler | None = None) -> Path:
    """The shared library, built if the cache does not hold it. Raises BuildError."""
    headers = find_headers(places)
    versions = [(str(headers.folder / v), (headers.folder / v)) for v in _VERSIONS]
    contents = [(SOURCE.name, SOURCE.read_bytes())]
    contents += [(name, path.read_bytes()) for name, path in versions if path.is_file()]
    folders = () if headers.libraries is None else (f"-L{headers.libraries}", f"-Wl,-rpath,{headers.libraries}")
    return library(
        "nearkv_xrt",
        [SOURCE],
        _OPTIONS,
        cache=cache or platformdirs.user_cache_path("nearkv") / "xrt",
        contents=contents,
        compiler=compiler,
        places=(f"-I{headers.folder}", *folders, "-lxrt_coreutil", "-luuid", "-pthread"),
    )
