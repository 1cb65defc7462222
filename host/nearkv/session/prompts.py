# SPDX-License-Identifier: Apache-2.0
"""A message of the user as the tokens that follow what a session holds, by the model's chat template. No model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from nearkv.errors import UserError, one_line
from nearkv.inputs import check_prompts

# Stand for the turn before, whose tokens the session has; no template changes them. Of the texts that are rendered only
# the last is the user's, who may write what he likes.
_QUESTION, _REPLY = "NEARKV-QUESTION", "NEARKV-REPLY"


def message_tokens(
    tokenizer: Any, text: str, before: Sequence[int], ends: Collection[int], *, chat_template: bool
) -> list[int]:
    """Tokens of the user's `text` after the session's tokens `before`; without a template just its own.

    UserError for an empty text, and for a template that fails or hides where a reply ends.
    """
    (text,) = check_prompts([text])
    if not (chat_template and getattr(tokenizer, "chat_template", None)):
        return _ids(tokenizer, text, special=not before)
    if not before:
        return _ids(tokenizer, _rendered(tokenizer, [("user", text)]), special=False)
    rendered = _rendered(tokenizer, [("user", _QUESTION), ("assistant", _REPLY), ("user", text)])
    _, reply, rest = rendered.partition(_REPLY)
    if not reply:
        raise UserError("the model's chat template does not show replies; the prompt can go without it (--raw)")
    tokens = _ids(tokenizer, rest, special=False)
    # The end token of the reply is in the session already, unless the reply was cut off before it.
    return tokens[1:] if tokens and before[-1] in ends and tokens[0] == before[-1] else tokens


def _rendered(tokenizer: Any, messages: Sequence[tuple[str, str]]) -> str:
    try:
        text: str = tokenizer.apply_chat_template(
            [{"role": role, "content": content} for role, content in messages],
            tokenize=False,
            add_generation_prompt=True,
        )
    except Exception as error:  # a template is a program of the model's maker: it may raise anything
        raise UserError(
            f"the model's chat template fails: {one_line(error)}; the prompt can go without it (--raw)"
        ) from error
    return text


def _ids(tokenizer: Any, text: str, *, special: bool) -> list[int]:
    ids = tokenizer(text, add_special_tokens=special)["input_ids"]
    if not ids:
        raise UserError("the prompt has no tokens")
    return [int(token) for token in ids]
