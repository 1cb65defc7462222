# SPDX-License-Identifier: Apache-2.0
"""Where the kernel's sources lie, in a clone or in an installed wheel, and which revision they are. Changes nothing."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
from dataclasses import dataclass
from pathlib import Path

from nearkv_driver.bitstream.errors import BuildRefused

_REPOSITORY = Path(__file__).resolve().parents[3]
_SUFFIXES = frozenset((".cpp", ".hpp", ".h", ".v", ".vh", ".tcl", ".xml", ".cfg", ".toml"))
_GIT_TIMEOUT_S = 60
_SHORT = 12


@dataclass(frozen=True)
class Revision:
    """`commit` is None where the sources are in no clone; `dirty`: they differ from it; `digest` is of the files."""

    commit: str | None
    dirty: bool
    digest: str

    @property
    def label(self) -> str:
        """For file names: the commit, marked when dirty; else the digest."""
        if self.commit is None:
            return f"src{self.digest[:_SHORT]}"
        return self.commit[:_SHORT] + ("-dirty" if self.dirty else "")

    @property
    def build_id(self) -> int:
        """identity.build of the register map: the first eight digits of the commit; 0 where no commit tells all."""
        return 0 if self.commit is None or self.dirty else int(self.commit[:8], 16)


@dataclass(frozen=True)
class Sources:
    """Folders of the kernel's two forms, and which state of them it is: the three go into the manifest."""

    hls: Path
    rtl: Path
    revision: Revision


def find_sources() -> Sources:
    """BuildRefused where neither the clone nor the wheel has them."""
    clone = _REPOSITORY / "fpga"
    if (clone / "hls" / "src").is_dir() and (clone / "rtl").is_dir():
        return _sources(clone / "hls", clone / "rtl", _REPOSITORY)
    spec = importlib.util.find_spec("nearkv_emulation")  # the wheel's copy lies there; the package is not imported
    for folder in spec.submodule_search_locations or () if spec else ():
        hls, rtl = Path(folder) / "_hls", Path(folder) / "_rtl"
        if hls.is_dir() and rtl.is_dir():
            return _sources(hls, rtl, None)
    raise BuildRefused(f"the kernel's sources are neither in {clone} nor in the installed package; reinstall nearkv")


def _sources(hls: Path, rtl: Path, clone: Path | None) -> Sources:
    digest = hashlib.sha256()
    for root in (hls, rtl):
        for path in sorted(p for p in root.rglob("*") if p.suffix in _SUFFIXES):
            data = path.read_bytes()
            digest.update(f"{root.name.lstrip('_')}/{path.relative_to(root)}\0{len(data)}\0".encode() + data)
    commit = _git(clone, "rev-parse", "--verify", "HEAD") if clone and (clone / ".git").exists() else None
    dirty = bool(commit and _git(clone, "status", "--porcelain", "--untracked-files=all", "--", "fpga") != "")
    return Sources(hls, rtl, Revision(commit, dirty, digest.hexdigest()))


def _git(folder: Path | None, *arguments: str) -> str | None:
    """What git says; None where it says nothing useful (no git, no commit)."""
    try:
        line = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(line, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
