# SPDX-License-Identifier: Apache-2.0
"""Card URLs of simulated RTL that write waveforms, one file per card. Opens no card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from nearkv.errors import UserError
from nearkv.inputs import check_cards

_SCHEME = "hw_emu"


def with_waves(cards: Sequence[str], file: Path) -> tuple[str, ...]:
    """The URLs, those of `hw_emu` cards with `wave=`: `file` for one such card, for several `run.0.fst`, `run.1.fst`
    from `run.fst`, by place in the list. UserError where there is none, or a file that cannot be written."""
    urls = check_cards(cards)
    simulated = [number for number, url in enumerate(urls) if url.scheme == _SCHEME]
    if not simulated:
        given = ", ".join(url.text for url in urls)
        raise UserError(f"waveform file {file}: only {_SCHEME} cards write waveforms; the cards are {given}")
    texts = [url.text for url in urls]
    for number in simulated:
        url = urls[number]
        if "wave" in url.options:
            raise UserError(f"card {url.text} names a waveform file already; give one or the other")
        path = file if len(simulated) == 1 else file.with_name(f"{file.stem}.{number}{file.suffix}")
        _require_writable(path)
        texts[number] = f"{url.text}{'&' if url.options else '?'}wave={quote(str(path), safe='/')}"
    return tuple(texts)


def _require_writable(path: Path) -> None:
    """Makes an empty file where there is none."""
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"waveform file {path}: it is no regular file")
        with path.open("ab"):
            pass
    except OSError as error:
        raise UserError(f"waveform file {path}: {error.strerror}") from error
