# SPDX-License-Identifier: Apache-2.0
"""Copies of what describes the kernel's interface, with one thing in them changed."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FOLDERS = ("fpga/rtl", "fpga/hls/src")
_FILES = ("fpga/regmap.toml", "fpga/hls/include/types.hpp", "driver/nearkv_driver/regmap.py")


def copy(folder: Path) -> Path:
    """A repository of these files alone."""
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, folder / name)
    for name in _FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def changed(folder: Path, file: str, old: str, new: str) -> Path:
    """A copy in which the first `old` of a file is `new`. Raises ValueError when the file has no `old`."""
    root = copy(folder)
    path = root / file
    text = path.read_text()
    if old not in text:
        raise ValueError(f"{file} has no {old!r}; this mutation needs another place")
    path.write_text(text.replace(old, new, 1))
    return root
