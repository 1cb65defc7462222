# SPDX-License-Identifier: Apache-2.0
"""The texts of a batch as they grow, in the order of the prompts and never mixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_TITLE_WIDTH = 72


class TextPrinter:
    """Writes the first unfinished prompt's text as it comes and keeps that of later ones until their turn.

    With several prompts each text has a heading: its number and the beginning of its prompt. `write` must flush.
    """

    def __init__(self, write: Callable[[str], None], prompts: Sequence[str]) -> None:
        self._write = write
        self._prompts = prompts
        self._waiting: list[list[str]] = [[] for _ in prompts]
        self._ended = [False] * len(prompts)
        self._current = -1
        self._fresh = True  # the line that is being written is empty

    def text(self, index: int, piece: str) -> None:
        if self._current < 0:
            self._open(0)
        if index == self._current:
            self._show(piece)
        else:
            self._waiting[index].append(piece)

    def end(self, index: int) -> None:
        """The text of `index` is complete. After the last one nothing may follow."""
        if self._current < 0:
            self._open(0)
        self._ended[index] = True
        while self._current < len(self._prompts) and self._ended[self._current]:
            if not self._fresh:
                self._show("\n")
            self._current += 1
            if self._current < len(self._prompts):
                self._open(self._current)

    def close(self) -> None:
        """Ends a line that was left open, as an error in the middle of a text leaves it."""
        if not self._fresh:
            self._show("\n")

    def _open(self, index: int) -> None:
        self._current = index
        if len(self._prompts) > 1:
            blank = "\n" if index else ""
            self._show(f"{blank}[{index + 1}/{len(self._prompts)}] {_title(self._prompts[index])}\n")
        for piece in self._waiting[index]:
            self._show(piece)
        self._waiting[index].clear()

    def _show(self, piece: str) -> None:
        self._write(piece)
        self._fresh = piece.endswith("\n")


def _title(prompt: str) -> str:
    text = " ".join(prompt.split())
    return text if len(text) <= _TITLE_WIDTH else text[: _TITLE_WIDTH - 1] + "\u2026"
