# SPDX-License-Identifier: Apache-2.0
"""Sessions of a tiny model on two emulated cards: where they lie, the command line for them, and their sudden end."""

from __future__ import annotations

from pathlib import Path

from nearkv.session.chat import Session

from tests.support.cli import run

WORDS = "the quick brown fox jumps over the lazy dog and runs into the forest where nobody has been for many years "


def cards(folder: Path, options: str = "") -> list[str]:
    """URLs of two cards with volumes in `folder`."""
    return [f"sw_emu:{i}?dram=64M&kernel=model&ssd={folder}/card{i}{options}" for i in range(2)]


def command(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of `nearkv` on these cards."""
    options = [part for card in cards(folder) for part in ("--card", card)]
    done = run(folder, *arguments, *options)
    return done.returncode, done.stdout, done.stderr


def die(session: Session) -> None:
    """As the end of the process would: nothing is flushed, nothing closed properly, the locks go."""
    if session._parts.cache is not None:
        session._parts.cache._release.detach()
    store = session._parts.store
    store._sequences.clear()
    store._dropped.detach()
    store._resources.close()
