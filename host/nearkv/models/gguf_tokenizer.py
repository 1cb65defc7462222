# SPDX-License-Identifier: Apache-2.0
"""Build a transformers tokenizer from a GGUF file's byte-level BPE vocabulary. Other vocabularies are refused by name.

The pre-tokenizer field matters: `smollm` splits every digit before the byte-level step; without it token ids differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nearkv.models.gguf import GGUF

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_PRE_TOKENIZERS = ("smollm", "gpt-2", "gpt2")
_CONTROL = 3  # token type of special tokens
_NAMED = {
    "bos_token": "tokenizer.ggml.bos_token_id",
    "eos_token": "tokenizer.ggml.eos_token_id",
    "pad_token": "tokenizer.ggml.padding_token_id",
    "unk_token": "tokenizer.ggml.unknown_token_id",
}


def build_tokenizer(gguf: GGUF) -> PreTrainedTokenizerFast:
    """The tokenizer with its chat template and special tokens; pads on the left, as generation needs."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    kind = gguf.string("tokenizer.ggml.model")
    if kind != "gpt2":
        raise ValueError(f"{gguf.path}: tokenizer.ggml.model is {kind!r}; only byte-level BPE ('gpt2') is supported")
    rule = gguf.string("tokenizer.ggml.pre")
    if rule not in _PRE_TOKENIZERS:
        raise ValueError(f"{gguf.path}: tokenizer.ggml.pre is {rule!r}; supported: {', '.join(_PRE_TOKENIZERS)}")
    words = gguf.strings("tokenizer.ggml.tokens")
    bpe = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, _merges(gguf, words)))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if rule == "smollm":
        bpe.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    else:
        bpe.pre_tokenizer = byte_level
    bpe.decoder = decoders.ByteLevel()
    special = [words[i] for i in _control_tokens(gguf, len(words))]
    bpe.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in special])
    template = gguf.string("tokenizer.chat_template", "")
    make: Any = PreTrainedTokenizerFast  # its constructor has no types
    tokenizer: PreTrainedTokenizerFast = make(
        tokenizer_object=bpe, chat_template=template or None, padding_side="left", **_named_tokens(gguf, words)
    )
    return tokenizer


def _merges(gguf: GGUF, words: list[str]) -> list[tuple[str, str]]:
    """The merge rules, each of whose parts and result is a token."""
    known = set(words)
    if len(known) != len(words):
        raise ValueError(f"{gguf.path}: tokenizer.ggml.tokens holds {len(words) - len(known)} tokens twice")
    merges = []
    for i, text in enumerate(gguf.strings("tokenizer.ggml.merges")):
        left, _, right = text.partition(" ")
        if not {left, right, left + right} <= known:
            raise ValueError(
                f"{gguf.path}: tokenizer.ggml.merges[{i}] = {text!r} does not merge two tokens into a token"
            )
        merges.append((left, right))
    return merges


def _control_tokens(gguf: GGUF, n_words: int) -> list[int]:
    """Ids of the special tokens."""
    kinds = gguf.fields.get("tokenizer.ggml.token_type")
    if not isinstance(kinds, np.ndarray) or len(kinds) != n_words:
        raise ValueError(f"{gguf.path}: tokenizer.ggml.token_type does not give one type for each of {n_words} tokens")
    return [int(i) for i in np.flatnonzero(kinds == _CONTROL)]


def _named_tokens(gguf: GGUF, words: list[str]) -> dict[str, str]:
    """Names of the special tokens that the file has, with their text."""
    named = {}
    for name, key in _NAMED.items():
        if key not in gguf.fields:
            continue
        i = gguf.number(key)
        if not 0 <= i < len(words):
            raise ValueError(f"{gguf.path}: {key} is {i}, the vocabulary has {len(words)} tokens")
        named[name] = words[i]
    return named
