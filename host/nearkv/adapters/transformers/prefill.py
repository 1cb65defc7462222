# SPDX-License-Identifier: Apache-2.0
"""Causal attention in torch over K and V that are in host memory, for chunks too large for the cards.

Works on packed tokens: padding is taken out row by row, so no mask is needed for it and each sequence gets the bits it
would get alone. Memory stays bounded by cutting the queries. Stores nothing.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import scaled_dot_product_attention

_MASK_ELEMENTS_MAX = 1 << 22  # of one [queries, keys] mask: bounds what a chunk of queries needs


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float, window: int) -> torch.Tensor:
    """q [B, Hq, n, d] are the last n of the m tokens of k and v [B, Hkv, m, d]; `window` tokens are seen (0: all)."""
    n, m = q.shape[2], k.shape[2]
    if n == m and (window == 0 or window >= m):
        return scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=True)
    out = torch.empty_like(q)
    step = max(1, min(n, _MASK_ELEMENTS_MAX // m))
    for begin in range(0, n, step):
        end = min(begin + step, n)
        position = torch.arange(m - n + begin, m - n + end, device=q.device)[:, None]
        first = max(0, m - n + begin - window + 1) if window else 0
        token = torch.arange(first, m - n + end, device=q.device)[None]
        seen = token <= position
        if window:
            seen &= token > position - window
        keys, values = k[:, :, first : m - n + end], v[:, :, first : m - n + end]
        out[:, :, begin:end] = scaled_dot_product_attention(
            q[:, :, begin:end], keys, values, attn_mask=seen, scale=scale, enable_gqa=True
        )
    return out


def first_chunk(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    valid: NDArray[np.bool_] | None,
    *,
    scale: float,
    window: int,
) -> torch.Tensor:
    """Attention of a chunk with nothing before it, in FP32, over K and V as they are stored.

    Rows of tokens that are not valid are zero.
    """
    query = q.detach().to(torch.float32)
    keys, values = (x.to(torch.float32) for x in (k, v))
    if valid is None:
        return causal(query, keys, values, scale=scale, window=window)
    out = torch.zeros_like(query)
    for b, row in enumerate(valid):
        at = torch.from_numpy(np.flatnonzero(row)).to(query.device)
        if len(at):
            out[b, :, at] = causal(
                query[b : b + 1, :, at], keys[b : b + 1, :, at], values[b : b + 1, :, at], scale=scale, window=window
            )[0]
    return out
