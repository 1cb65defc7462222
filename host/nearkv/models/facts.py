# SPDX-License-Identifier: Apache-2.0
"""Small facts of a loaded model that generation needs. Loads nothing."""

from __future__ import annotations

from typing import Any


def end_tokens(network: Any, tokenizer: Any) -> tuple[int, ...]:
    """The tokens that end a text: the model's own, else the tokenizer's, else none."""
    found = network.generation_config.eos_token_id
    if found is None:
        found = tokenizer.eos_token_id
    if found is None:
        return ()
    return tuple(found) if isinstance(found, (list, tuple)) else (int(found),)


def position_limit(config: Any) -> int | None:
    """The most positions that the model can place; None where it names none."""
    limit = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    return int(limit) if limit else None
