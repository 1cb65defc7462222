# SPDX-License-Identifier: Apache-2.0
"""Tokens of a batch as they come: text pieces per sequence, ends of sequences, and the times of prefill and decode.

`TokenSink` is what transformers' `generate(streamer=...)` wants (`put`, `end`) without importing it. It prints nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

Decode = Callable[[Sequence[int]], str]
OnText = Callable[[int, str], None]
OnEnd = Callable[[int], None]

_INCOMPLETE = "\ufffd"  # what a tokenizer gives for the first bytes of a character


class TextStream:
    """Text of one growing token sequence, in pieces that together are exactly `decode` of all tokens.

    A piece is held back while its last character is incomplete. Only the tokens since the last piece and those of that
    piece are decoded again (the latter as context: some tokenizers drop a leading space), so a step costs the same
    however long the text is.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._context = 0  # first token of the last piece
        self._shown = 0  # tokens whose text was handed out

    def push(self, token: int) -> str:
        """The text that this token completes, often empty."""
        self._tokens.append(token)
        return self._take(final=False)

    def flush(self) -> str:
        """What is left at the end, incomplete characters included."""
        return self._take(final=True)

    def _take(self, *, final: bool) -> str:
        before = self._decode(self._tokens[self._context : self._shown])
        now = self._decode(self._tokens[self._context :])
        if len(now) <= len(before) or (now.endswith(_INCOMPLETE) and not final):
            return ""
        self._context, self._shown = self._shown, len(self._tokens)
        return now[len(before) :]


class TokenSink:
    """Collects a batch's new tokens and times them; the streamer of transformers' `generate`.

    `put` first gets the prompts [B, n], then one token per sequence [B] each step, or several of a single sequence.
    A sequence ends with its first end token, which is kept; what comes for it later is padding and dropped. `on_first`
    is called once, when prefill has given the first tokens. `clock` gives seconds.
    """

    def __init__(
        self,
        batch: int,
        decode: Decode,
        end_tokens: Collection[int],
        on_text: OnText | None = None,
        on_end: OnEnd | None = None,
        on_first: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.tokens: list[list[int]] = [[] for _ in range(batch)]
        self.prefill_s = 0.0
        self.decode_s = 0.0
        self._texts: list[list[str]] = [[] for _ in range(batch)]
        self._streams = [TextStream(decode) for _ in range(batch)]
        self._ended = [False] * batch
        self._end_tokens = frozenset(end_tokens)
        self._on_text = on_text
        self._on_end = on_end
        self._on_first = on_first
        self._clock = clock
        self._start: float | None = None
        self._first: float | None = None

    @property
    def texts(self) -> list[str]:
        return ["".join(pieces) for pieces in self._texts]

    @property
    def decode_tokens(self) -> int:
        """New tokens that decode steps gave: all but the first of each sequence, which prefill gave."""
        return sum(max(len(ids) - 1, 0) for ids in self.tokens)

    def put(self, value: Any) -> None:
        now = self._clock()
        if self._start is None:
            self._start = now
            return
        if self._first is None:
            self._first = now
            self.prefill_s = now - self._start
            if self._on_first is not None:
                self._on_first()
        else:
            self.decode_s = now - self._first
        tokens = value.reshape(-1).tolist()
        for index, token in [(0, t) for t in tokens] if len(self.tokens) == 1 else enumerate(tokens):
            if not self._ended[index]:
                self._push(index, token)

    def end(self) -> None:
        for index in range(len(self.tokens)):
            self._end(index)

    def _push(self, index: int, token: int) -> None:
        self.tokens[index].append(token)
        self._hand_out(index, self._streams[index].push(token))
        if token in self._end_tokens:
            self._end(index)

    def _end(self, index: int) -> None:
        if not self._ended[index]:
            self._ended[index] = True
            self._hand_out(index, self._streams[index].flush())
            if self._on_end is not None:
                self._on_end(index)

    def _hand_out(self, index: int, piece: str) -> None:
        if piece:
            self._texts[index].append(piece)
            if self._on_text is not None:
                self._on_text(index, piece)
