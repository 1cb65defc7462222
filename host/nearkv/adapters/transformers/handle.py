# SPDX-License-Identifier: Apache-2.0
"""Tensors that stand for what is not in memory: the K or V of a whole cache, and a mask that nobody has built.

A handle has shape, dtype and device, and the object behind it. Any operation on the K or V handle is refused, since it
would need rows that stay on the cards; any operation on the mask builds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

from nearkv.adapters.transformers.errors import UnsupportedFeature

if TYPE_CHECKING:
    from nearkv.adapters.transformers.layer import NearLayer


class KVHandle(torch.Tensor):
    """K or V of one layer, past and new tokens: `layer` knows where the past is, `fresh` are the new rows."""

    layer: NearLayer
    fresh: torch.Tensor

    @staticmethod
    def __new__(cls, layer: NearLayer, fresh: torch.Tensor) -> KVHandle:
        batch, heads, n, width = fresh.shape
        shape = (batch, heads, layer.columns + n, width)
        made: KVHandle = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=fresh.dtype, device=fresh.device)
        return made

    def __init__(self, layer: NearLayer, fresh: torch.Tensor) -> None:
        self.layer, self.fresh = layer, fresh

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def __repr__(self) -> str:  # type: ignore[override]
        return f"KVHandle(layer={self.layer.index}, shape={tuple(self.shape)})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch declares it as an attribute
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise UnsupportedFeature(
            "operation on cached K or V",
            str(func),
            "the rows stay on the cards; the model must compute attention through transformers' AttentionInterface, "
            "while the cache is open",
        )


class MaskHandle(torch.Tensor):
    """The mask that transformers asked for, as its request; becomes a [batch, 1, query, key] matrix when touched."""

    request: Mapping[str, Any]

    @staticmethod
    def __new__(cls, request: Mapping[str, Any], n_queries: int) -> MaskHandle:
        shape = (request["batch_size"], 1, n_queries, request["kv_length"])
        device = request.get("device", "cpu")
        made: MaskHandle = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.bool, device=device)
        return made

    def __init__(self, request: Mapping[str, Any], n_queries: int) -> None:
        self.request = request
        self._built: dict[bool, torch.Tensor | None] = {}

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def __repr__(self) -> str:  # type: ignore[override]
        return f"MaskHandle(shape={tuple(self.shape)})"

    @property
    def padding(self) -> torch.Tensor | None:
        """The 2-D mask that the caller gave, True where a token counts; None where all do."""
        mask: torch.Tensor | None = self.request.get("attention_mask")
        return mask

    @property
    def window(self) -> int:
        """Tokens that a query sees, itself among them; 0 = all before it."""
        return int(self.request.get("local_size") or 0)

    @property
    def is_plain(self) -> bool:
        """Whether padding, causality and a window say everything. Any other pattern switches one of the two flags."""
        request = self.request
        return not request.get("use_vmap", False) and bool(request.get("allow_is_causal_skip", True))

    def built(self, *, may_skip: bool = True) -> torch.Tensor | None:
        """The mask as sdpa takes it; None (only with `may_skip`) where sdpa's own causal mode says the same."""
        from transformers.masking_utils import sdpa_mask

        if may_skip not in self._built:
            request = dict(self.request)
            if not may_skip:
                request.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
            self._built[may_skip] = sdpa_mask(**request)
        return self._built[may_skip]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch declares it as an attribute
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        def build(x: Any) -> Any:
            return x.built(may_skip=False) if isinstance(x, MaskHandle) else x

        return func(*tree_map(build, args), **tree_map(build, kwargs or {}))
