# SPDX-License-Identifier: Apache-2.0
"""Checks of what a generation is asked for, and prompts as padded token ids. Refusals name the value and the limit.

It opens no card and touches no file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nearkv_driver.registry import CardUrl, parse_url

from nearkv.errors import UserError, one_line


@dataclass(frozen=True)
class Inputs:
    """Token ids and mask [B, n], padded on the left, as tensors; `lengths` counts each prompt's own tokens."""

    ids: Any
    mask: Any
    lengths: tuple[int, ...]

    def on(self, device: str) -> Inputs:
        """The same on a device."""
        return self if device == "cpu" else Inputs(self.ids.to(device), self.mask.to(device), self.lengths)


def check_prompts(prompts: Sequence[str]) -> tuple[str, ...]:
    """The prompts, at least one, none of them empty or only white space."""
    if isinstance(prompts, str):
        raise TypeError("prompts is a string; give a sequence of strings, one per prompt")
    if not prompts:
        raise UserError("there are no prompts; give at least one")
    for number, prompt in enumerate(prompts, 1):
        if not isinstance(prompt, str):
            raise TypeError(f"prompt {number} is of type {type(prompt).__name__}; it must be a string")
        if not prompt.strip():
            raise UserError(f"prompt {number} of {len(prompts)} is empty")
        try:
            prompt.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f"prompt {number} of {len(prompts)} is not UTF-8 text at character {error.start}"
            ) from error
    return tuple(prompts)


def check_count(name: str, value: int, most: int | None = None) -> int:
    """`value`, a whole number of at least 1 and, where there is a limit, at most `most`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is of type {type(value).__name__}; it must be a whole number")
    if value < 1:
        raise UserError(f"{name} is {value}; it must be at least 1")
    if most is not None and value > most:
        raise UserError(f"{name} is {value}; it must be at most {most}")
    return value


def check_cards(cards: Sequence[str]) -> tuple[CardUrl, ...]:
    """The URLs, parsed: at least one, no card, volume folder or waveform file twice."""
    if isinstance(cards, str):
        raise TypeError("cards is a string; give a sequence of URLs, one per card")
    if not cards:
        raise UserError("there are no cards; give at least one URL, for example sw_emu:0")
    targets: dict[tuple[str, str], str] = {}
    places: dict[tuple[str, str], str] = {}
    urls = tuple(_parsed(text) for text in cards)
    for url in urls:
        text = url.text
        if (first := targets.setdefault((url.scheme, url.target), text)) is not text:
            raise UserError(f"cards {first} and {text} are the same card; give each card once")
        for option, what in (("ssd", "volume folder"), ("wave", "waveform file")):
            if not (place := url.options.get(option)):
                continue
            real = os.path.realpath(os.path.expanduser(place))
            if (first := places.setdefault((option, real), text)) is not text:
                raise UserError(f"cards {first} and {text} have the same {what}; give each card its own")
    return urls


def _parsed(text: str) -> CardUrl:
    if not isinstance(text, str):
        raise TypeError(f"a card's URL is of type {type(text).__name__}; it must be a string")
    try:
        return parse_url(text)
    except ValueError as error:
        raise UserError(one_line(error)) from error


def check_context(lengths: Sequence[int], max_new_tokens: int, limit: int | None) -> None:
    """Every prompt with its new tokens must fit the model's positions (`limit`; None: the model names none)."""
    for number, length in enumerate(lengths, 1):
        if length == 0:
            raise UserError(f"prompt {number} of {len(lengths)} has no tokens")
        if limit is not None and length + max_new_tokens > limit:
            raise UserError(
                f"prompt {number} of {len(lengths)} has {length} tokens and may get {max_new_tokens} new ones: "
                f"{length + max_new_tokens} in all, the model's limit is {limit}"
            )


def tokenize(tokenizer: Any, prompts: Sequence[str], *, chat_template: bool) -> Inputs:
    """Prompts as left-padded ids; with `chat_template` each is a user's message, where the tokenizer has a template."""
    templated = chat_template and bool(getattr(tokenizer, "chat_template", None))
    texts = [_message(tokenizer, prompt) for prompt in prompts] if templated else list(prompts)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    batch = tokenizer(texts, return_tensors="pt", padding=len(texts) > 1, add_special_tokens=not templated)
    mask = batch["attention_mask"]
    return Inputs(batch["input_ids"], mask, tuple(mask.sum(-1).tolist()))


def _message(tokenizer: Any, prompt: str) -> str:
    message = [{"role": "user", "content": prompt}]
    try:
        text: str = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # a template is a program of the model's maker: it may raise anything
        raise UserError(
            f"the model's chat template fails: {one_line(error)}; the prompt can go without it (--raw)"
        ) from error
    return text
