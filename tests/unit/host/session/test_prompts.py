# SPDX-License-Identifier: Apache-2.0
"""What the tokens of a message are, after what was said: whatever the text is, it comes once and whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from nearkv.errors import UserError
from nearkv.session.prompts import message_tokens

END = ord("|")


class Characters:
    """A tokenizer whose tokens are characters, with a template."""

    chat_template: str | None = "yes"

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [*([1] if add_special_tokens else []), *map(ord, text)]}

    def apply_chat_template(self, messages: Sequence[dict[str, str]], **_: Any) -> str:
        return "".join(f"{m['role'][0]}:{m['content']}|" for m in messages) + "a:"


def said(text: str, before: Sequence[int] = (), template: bool = True) -> str:
    tokens = message_tokens(Characters(), text, before, {END}, chat_template=template)
    return "".join(map(chr, tokens))


@pytest.mark.parametrize("text", ["hi", "NEARKV-REPLY", "NEARKV-QUESTION NEARKV-REPLY|", "\u00e9\U0001f600\0"])
def test_any_text_comes_once_and_whole(text: str) -> None:
    assert said(text) == f"u:{text}|a:"
    assert said(text, [5, END]) == f"u:{text}|a:"  # the reply ended itself
    assert said(text, [5, 6]) == f"|u:{text}|a:"  # the reply was cut off
    assert said(text, [5, 6], template=False) == text
    assert said(text, template=False) == "\1" + text


def test_templates_that_hide_or_refuse_replies_are_told() -> None:
    class Hides(Characters):
        def apply_chat_template(self, messages: Sequence[dict[str, str]], **_: Any) -> str:
            return f"{messages[-1]['content']}"

    class Fails(Characters):
        def apply_chat_template(self, messages: Sequence[dict[str, str]], **_: Any) -> str:
            raise KeyError("x")

    with pytest.raises(UserError, match="does not show replies"):
        message_tokens(Hides(), "a", [5], {END}, chat_template=True)
    with pytest.raises(UserError, match="template fails"):
        message_tokens(Fails(), "a", [5], {END}, chat_template=True)
