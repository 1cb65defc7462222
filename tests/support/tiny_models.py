# SPDX-License-Identifier: Apache-2.0
"""Tiny models with random weights, one per attention shape, and the stock cache they are held against."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    DynamicCache,
    Gemma3TextConfig,
    GemmaConfig,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    OPTConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
)
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

_COMMON: dict[str, Any] = {
    "vocab_size": 97,
    "num_hidden_layers": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
    "initializer_range": 0.2,
}


def _config(kind: Any, heads: int, kv_heads: int, head_size: int, **more: Any) -> Any:
    hidden = more.pop("hidden_size", 96)
    return kind(
        **{
            **_COMMON,
            "hidden_size": hidden,
            "intermediate_size": 64,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": head_size,
            **more,
        }
    )


# name -> a config: (group size, head size) and what else is special
CONFIGS: dict[str, Any] = {
    "llama group 3 d 64": lambda: _config(LlamaConfig, 6, 2, 64),
    "llama group 1 d 112": lambda: _config(LlamaConfig, 2, 2, 112),
    "llama group 4 d 128": lambda: _config(LlamaConfig, 4, 1, 128),
    "mistral window 7": lambda: _config(MistralConfig, 4, 2, 64, sliding_window=7),
    "qwen2 group 7": lambda: _config(Qwen2Config, 7, 1, 64, hidden_size=448),
    "qwen3 d 128": lambda: _config(Qwen3Config, 4, 2, 128),
    "phi3 d 96": lambda: _config(Phi3Config, 4, 2, 96, hidden_size=384),
    "gpt-neox d 80": lambda: GPTNeoXConfig(
        **{**_COMMON, "hidden_size": 160, "intermediate_size": 64, "num_attention_heads": 2}
    ),
    "gemma multi-query d 256": lambda: _config(GemmaConfig, 4, 1, 256),
    "gemma3 windows in some layers": lambda: _config(
        Gemma3TextConfig,
        4,
        1,
        256,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention"],
        query_pre_attn_scalar=100,
    ),
    "opt learned positions": lambda: OPTConfig(
        vocab_size=97,
        hidden_size=128,
        ffn_dim=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=512,
        pad_token_id=0,
        eos_token_id=None,
        word_embed_proj_dim=128,
        init_std=0.2,
        dropout=0.0,
    ),
}


def tiny_model(name: str, *, dtype: torch.dtype = torch.float32, **changes: Any) -> Any:
    """A model of CONFIGS in evaluation mode, the same weights every time; `changes` are set on its config first."""
    config = CONFIGS[name]()
    for field, value in changes.items():
        setattr(config, field, value)
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval().to(dtype)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


class RoundedCache(DynamicCache):
    """The stock cache with K and V rounded to FP16, which is what the cards store: attention itself stays stock."""

    def update(self, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> Any:
        k, v = (x.to(torch.float16).to(x.dtype) for x in (key_states, value_states))
        return super().update(k, v, layer_idx, *args, **kwargs)


def prompt(lengths: list[int], *, side: str = "left", seed: int = 3) -> dict[str, torch.Tensor]:
    """Random token ids, padded to the longest on `side`, with their mask."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(lengths)
    ids = torch.zeros((len(lengths), longest), dtype=torch.long)
    mask = torch.zeros((len(lengths), longest), dtype=torch.long)
    for row, n in enumerate(lengths):
        at = slice(longest - n, longest) if side == "left" else slice(0, n)
        ids[row, at] = torch.randint(2, 97, (n,), generator=generator)
        mask[row, at] = 1
    return {"input_ids": ids, "attention_mask": mask}


def generate(model: Any, cache: Any, inputs: dict[str, torch.Tensor], new_tokens: int = 12, **more: Any) -> Any:
    """Greedy generation; `sequences` and the `logits` of each step."""
    return model.generate(
        **inputs,
        cache=cache,
        max_new_tokens=new_tokens,
        do_sample=False,
        return_dict_in_generate=True,
        output_logits=True,
        **more,
    )


def assert_same(ours: Any, stock: Any, *, of_spread: float = 2e-3) -> None:
    """Equal tokens; logits within `of_spread` of their standard deviation.

    Attention itself agrees to FP32 precision, but its last bits can make an element of the next layer's K or V round to
    the other FP16 neighbour, which is off by up to 2^-11 of its size.
    """
    assert torch.equal(ours.sequences, stock.sequences)
    for step, (a, b) in enumerate(zip(ours.logits, stock.logits, strict=True)):
        spread = float(b.float().std())
        error = float((a.float() - b.float()).abs().max())
        assert error <= of_spread * spread, f"step {step}: {error} of {spread}"
