# SPDX-License-Identifier: Apache-2.0
"""Drive the adapter's attention with chosen q, k and v instead of a model's; and full attention in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from nearkv.adapters.transformers.attention import near_attention
from nearkv.adapters.transformers.mask import near_mask
from transformers import LlamaConfig


def config(heads: int, kv_heads: int, head_size: int, *, layers: int = 1, positions: int = 8192) -> Any:
    return LlamaConfig(
        vocab_size=8,
        hidden_size=heads * head_size,
        intermediate_size=8,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_size,
        max_position_embeddings=positions,
    )


def attend(
    cache: Any, q: Any, k: Any, v: Any, mask: Any = None, *, layer: int = 0, window: int | None = None, **more: Any
) -> Any:
    """One chunk through one layer, as a model would: arrays [B, heads, n, d], mask [B, past + n] -> [B, Hq, n, d]."""
    q, k, v = (torch.as_tensor(np.array(x) if isinstance(x, np.ndarray) else x) for x in (q, k, v))
    kv_length, _ = cache.get_mask_sizes(q.shape[2], layer)
    handle = near_mask(
        batch_size=q.shape[0],
        q_length=q.shape[2],
        kv_length=kv_length,
        q_offset=kv_length - q.shape[2],
        attention_mask=None if mask is None else torch.as_tensor(mask).bool(),
        **({} if window is None else {"local_size": window}),
    )
    keys, values = cache.update(k, v, layer)
    out, _ = near_attention(torch.nn.Module(), q, keys, values, handle, **more)
    return out.transpose(1, 2).numpy()


def reference(q: Any, k: Any, v: Any, *, window: int = 0) -> Any:
    """Softmax attention in float64 of the last n of m tokens: q [Hq, n, d], k and v [Hkv, m, d]."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group, n, m = q.shape[0] // k.shape[0], q.shape[1], k.shape[1]
    score = q @ np.repeat(k, group, 0).swapaxes(1, 2) * q.shape[2] ** -0.5
    position, token = np.arange(m - n, m)[:, None], np.arange(m)[None]
    seen = (token <= position) & ((token > position - window) if window else True)
    score = np.where(seen, score, -np.inf)
    weight = np.exp(score - score.max(-1, keepdims=True))
    return weight @ np.repeat(v, group, 0) / weight.sum(-1, keepdims=True)


def rows(rng: np.random.Generator, heads: int, n: int, head_size: int) -> Any:
    """Standard normal values that FP16 holds exactly, as FP32 [heads, n, head_size]."""
    return rng.standard_normal((heads, n, head_size)).astype(np.float16).astype(np.float32)
