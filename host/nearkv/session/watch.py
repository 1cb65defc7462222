# SPDX-License-Identifier: Apache-2.0
"""What a caller gets of a turn: its text as it comes, its times, and the reply at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nearkv.streaming import OnText, TextStream


@dataclass(frozen=True)
class SessionReply:
    """One turn: the new text and its tokens (end token included), why it ended, and what it took.

    `prompt_tokens` were computed before the first new one, beside `shared_tokens` that another session had stored.
    `new_tokens` came in this call, the others of the turn before it was cut off; `decode_s` is of all new ones but the
    first.
    """

    text: str
    tokens: tuple[int, ...]
    reason: str
    prompt_tokens: int
    shared_tokens: int
    prefill_s: float
    decode_s: float
    new_tokens: int


class TurnWatch:
    """Text and times of one turn."""

    def __init__(
        self, text_of: Callable[[Sequence[int]], str], on_text: OnText | None, said: Sequence[int] = ()
    ) -> None:
        """`said`: tokens of the turn that the caller knows; a character that they begin is told whole."""
        self._stream, self._text_of, self._on_text = TextStream(text_of), text_of, on_text
        self._began_s = self._first_s = self._last_s = time.perf_counter()
        self._tokens = 0
        for token in said:
            self._stream.push(token)

    def token(self, token: int) -> None:
        self._last_s = time.perf_counter()
        if not self._tokens:
            self._first_s = self._last_s
        self._tokens += 1
        self._tell(self._stream.push(token))

    def reply(self, tokens: tuple[int, ...], reason: str, computed: int, shared: int) -> SessionReply:
        self._tell(self._stream.flush())
        return SessionReply(
            self._text_of(tokens),
            tokens,
            reason,
            computed,
            shared,
            self._first_s - self._began_s,
            self._last_s - self._first_s,
            self._tokens,
        )

    def _tell(self, piece: str) -> None:
        if piece and self._on_text is not None:
            self._on_text(0, piece)
