# SPDX-License-Identifier: Apache-2.0
"""Settings of this package from the environment, which no other module of it reads. Sets nothing, creates no folder.

NEARKV_CACHE_DIR   folder for converted models; default: the user's cache folder (XDG_CACHE_HOME is honoured)
NEARKV_CARDS       card URLs separated by white space, used where none are given; default: two emulated cards
NEARKV_THREADS     threads for the model's own arithmetic; default: the CPUs that this process may use

Command line options and arguments go before the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from nearkv.errors import UserError, one_line

DEFAULT_CARDS = ("sw_emu:0", "sw_emu:1")
DEFAULT_MODEL = "smollm2"
DEFAULT_NEW_TOKENS = 128


@dataclass(frozen=True)
class Settings:
    """What the environment says, defaults filled in; `threads` at least 1, `cards` at least one URL."""

    cache_dir: Path
    cards: tuple[str, ...]
    threads: int


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Reads the environment (`os.environ` unless given). UserError names a variable whose value is no good."""
    env = os.environ if environ is None else environ
    cache = env.get("NEARKV_CACHE_DIR", "")
    return Settings(
        cache_dir=_folder("NEARKV_CACHE_DIR", cache) if cache else Path(platformdirs.user_cache_dir("nearkv")),
        cards=tuple(env.get("NEARKV_CARDS", "").split()) or DEFAULT_CARDS,
        threads=_threads(env.get("NEARKV_THREADS", "")),
    )


def available_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0))


def _folder(name: str, text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # ~NAME without such a user
        raise UserError(f"{name} is {text!r}: {one_line(error)}") from error


def _threads(text: str) -> int:
    if not text:
        return available_cpus()
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UserError(f"NEARKV_THREADS is {text!r}; it must be a whole number of at least 1")
    return int(text)
