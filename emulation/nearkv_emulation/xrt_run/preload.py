# SPDX-License-Identifier: Apache-2.0
"""The library that is preloaded into host programs, built once with the cache of `build`."""

from __future__ import annotations

from pathlib import Path

from nearkv_emulation.build import build

_FOLDER = Path(__file__).parent / "native"


def preload_library(cache: Path | None = None) -> Path:
    """Raises BuildError."""
    return build("nearkv_xrt_settle", _FOLDER, [_FOLDER / "xrt_settle.cpp"], ("-O2", "-ldl"), cache)
