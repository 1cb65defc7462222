# SPDX-License-Identifier: Apache-2.0
"""Pieces add up to the text, characters are never cut, sequences end on their own, and times come from the clock."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from nearkv.streaming import TextStream, TokenSink
from numpy.typing import NDArray

END = 0


def decode_bytes(tokens: Sequence[int]) -> str:
    """Each token is one byte, as in a byte-level tokenizer at its worst; the end token has no text."""
    return bytes(token for token in tokens if token != END).decode("utf-8", errors="replace")


def decode_words(tokens: Sequence[int]) -> str:
    """As tokenizers that drop the space before the first word."""
    return " ".join(f"w{token}" for token in tokens)


@pytest.mark.parametrize("text", ["plain", "gr\u00fc\u00dfe", "\u4f60\u597d", "a\U0001f600b", "e\u0301", ""])
def test_pieces_are_whole_characters_and_add_up(text: str) -> None:
    stream = TextStream(decode_bytes)
    pieces = [stream.push(byte) for byte in text.encode()]
    assert not any("\ufffd" in piece for piece in pieces)
    assert "".join(pieces) + stream.flush() == text


def test_spaces_between_words_survive_a_tokenizer_that_drops_leading_ones() -> None:
    stream = TextStream(decode_words)
    assert [stream.push(token) for token in (1, 2, 3)] == ["w1", " w2", " w3"]


def test_an_incomplete_character_is_shown_at_the_end() -> None:
    stream = TextStream(decode_bytes)
    assert stream.push(ord("a")) == "a"
    assert stream.push(0xE4) == ""
    assert stream.flush() == "\ufffd"
    assert stream.flush() == ""


def test_a_step_decodes_a_bounded_number_of_tokens() -> None:
    longest = 0

    def decode(tokens: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(tokens))
        return decode_bytes(tokens)

    stream = TextStream(decode)
    for byte in b"a long text" * 50:
        stream.push(byte)
    assert longest == 2


class Clock:
    def __init__(self, *times: float) -> None:
        self._times = iter(times)

    def __call__(self) -> float:
        return next(self._times)


def prompts(batch: int) -> NDArray[np.int64]:
    return np.full((batch, 4), 7)


def test_sequences_end_on_their_own_and_padding_is_dropped() -> None:
    pieces: list[tuple[int, str]] = []
    ends: list[int] = []
    sink = TokenSink(2, decode_bytes, {END}, on_text=lambda i, p: pieces.append((i, p)), on_end=ends.append)
    sink.put(prompts(2))
    for step in ([65, 97], [END, 98], [END, 99]):
        sink.put(np.array(step))
    assert ends == [0]
    sink.end()
    assert ends == [0, 1]
    assert sink.tokens == [[65, END], [97, 98, 99]]
    assert sink.texts == ["A", "abc"]
    assert pieces == [(0, "A"), (1, "a"), (1, "b"), (1, "c")]
    assert sink.decode_tokens == 3  # B's end token, b and c: the first of each came from prefill


def test_prefill_and_decode_are_timed_apart() -> None:
    firsts: list[bool] = []
    sink = TokenSink(1, decode_bytes, (), on_first=lambda: firsts.append(True), clock=Clock(10.0, 12.0, 12.5, 13.5))
    sink.put(prompts(1))
    for token in (65, 66, 67):
        sink.put(np.array([token]))
    assert (sink.prefill_s, sink.decode_s) == (2.0, 1.5)
    assert firsts == [True]


def test_accepted_drafts_come_several_at_once() -> None:
    pieces: list[str] = []
    sink = TokenSink(1, decode_bytes, {END}, on_text=lambda _, piece: pieces.append(piece))
    sink.put(prompts(1))
    for step in ([[65]], [[66, 67, 68]], [[69, END, 70]]):
        sink.put(np.array(step))
    sink.end()
    assert sink.tokens == [[65, 66, 67, 68, 69, END]]
    assert pieces == ["A", "B", "C", "D", "E"]


def test_one_token_has_no_decode_time() -> None:
    sink = TokenSink(1, decode_bytes, (), clock=Clock(1.0, 2.0))
    sink.put(prompts(1))
    sink.put(np.array([65]))
    sink.end()
    assert (sink.prefill_s, sink.decode_s, sink.decode_tokens) == (1.0, 0.0, 0)
