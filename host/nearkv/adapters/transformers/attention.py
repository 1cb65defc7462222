# SPDX-License-Identifier: Apache-2.0
"""The attention function that models call while a NearStorageCache is open for their config.

With a handle for K it asks the handle's layer. Without one (another cache, no cache, another model that shares the
config) it is transformers' sdpa. Features that the kernel lacks are refused, never dropped.
"""

from __future__ import annotations

from typing import Any

import torch

from nearkv.adapters.transformers.errors import UnsupportedFeature
from nearkv.adapters.transformers.handle import KVHandle, MaskHandle

# Arguments that change the scores or choose tokens; each must be absent or None.
_REFUSED = {
    "softcap": "the kernel has no soft cap of scores",
    "s_aux": "the kernel has no attention sinks",
    "sinks": "the kernel has no attention sinks",
    "position_bias": "the kernel adds no position bias",
    "indices": "the kernel reads every token, it does not select",
    "block_indices": "the kernel reads every token, it does not select",
    "cu_seq_lens_q": "packed sequences are not supported",
    "cu_seq_lens_k": "packed sequences are not supported",
}


def near_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """query [B, Hq, n, d] -> ([B, n, Hq, d], None), as transformers' attention functions."""
    if not isinstance(key, KVHandle) or not isinstance(value, KVHandle):
        return _stock(module, query, key, value, attention_mask, scaling, dropout, kwargs)
    mask = _plain_mask(attention_mask)
    _refuse_arguments(module, mask, dropout, kwargs)
    scale = float(scaling) if scaling is not None else query.shape[-1] ** -0.5
    out = key.layer.attend(query, key.fresh, value.fresh, mask, scale=scale)
    return out.to(query.dtype).transpose(1, 2).contiguous(), None


def _stock(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None,
    dropout: float,
    kwargs: dict[str, Any],
) -> tuple[torch.Tensor, None]:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    stock: Any = sdpa_attention_forward
    mask = attention_mask.built() if isinstance(attention_mask, MaskHandle) else attention_mask
    result: tuple[torch.Tensor, None] = stock(
        module, query, key, value, mask, dropout=dropout, scaling=scaling, **kwargs
    )
    return result


def _plain_mask(mask: torch.Tensor | None) -> MaskHandle:
    if not isinstance(mask, MaskHandle):
        shape = None if mask is None else tuple(mask.shape)
        raise UnsupportedFeature("attention mask of shape", shape, "only 2-D padding masks [batch, tokens] are")
    if not mask.is_plain:
        raise UnsupportedFeature(
            "mask pattern", mask.request.get("mask_function"), "only causal masks with padding and a sliding window are"
        )
    return mask


def _refuse_arguments(module: torch.nn.Module, mask: MaskHandle, dropout: float, kwargs: dict[str, Any]) -> None:
    for name, why in _REFUSED.items():
        if kwargs.get(name) is not None:
            given = kwargs[name]
            raise UnsupportedFeature(name, tuple(given.shape) if isinstance(given, torch.Tensor) else given, why)
    causal = kwargs.get("is_causal")
    if (getattr(module, "is_causal", True) if causal is None else causal) is False:
        raise UnsupportedFeature("is_causal", False, "the kernel's attention is causal")
    if kwargs.get("output_attentions"):
        raise UnsupportedFeature("output_attentions", True, "the weights stay on the cards")
    if dropout:
        raise UnsupportedFeature("dropout", dropout, "call model.eval() first")
    window = kwargs.get("sliding_window")
    if window is not None and window != mask.window:
        raise UnsupportedFeature("sliding_window", window, f"the mask of the same layer has a window of {mask.window}")
