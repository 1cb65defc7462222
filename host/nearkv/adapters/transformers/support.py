# SPDX-License-Identifier: Apache-2.0
"""Read from a model's config what the store needs, and refuse by name what the kernel does not do. Opens nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from nearkv_driver.regmap import HEAD_SIZES, ROWS_MAX

from nearkv.adapters.transformers.errors import UnsupportedFeature
from nearkv.layout import ModelLayout

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

LAYER_TYPES = ("full_attention", "sliding_attention")

# Config fields that must be absent, None, False or 0.
_REFUSED: Mapping[str, str] = {
    "is_encoder_decoder": "only decoder models",
    "add_cross_attention": "only self-attention is kept",
    "attn_logit_softcapping": "the kernel has no soft cap of scores",
    "alibi": "the kernel adds no position bias (ALiBi)",
    "use_alibi": "the kernel adds no position bias (ALiBi)",
    "relative_attention_num_buckets": "the kernel adds no position bias",
    "index_topk": "the kernel reads every token, it does not select",
    "num_kv_shared_layers": "every layer must have its own K and V",
    "kv_sharing_modes": "every layer must have its own K and V",
    "is_heterogeneous": "all layers must have the same heads",
}
# Model types that need something which no config field tells.
_REFUSED_TYPES: Mapping[str, str] = {
    "gpt_oss": "the kernel has no attention sinks (s_aux)",
    "bloom": "the kernel adds no position bias (ALiBi)",
    "mpt": "the kernel adds no position bias (ALiBi)",
}
_POSITIONS = ("alibi", "relative_key", "relative_key_query")


@dataclass(frozen=True)
class ModelFacts:
    """What a config says: the layout of K and V, and the most tokens that the model can place (None: no limit)."""

    layout: ModelLayout
    max_positions: int | None


def check_config(config: PreTrainedConfig, model_name: str | None = None) -> ModelFacts:
    """The facts of a decoder's text config.

    Raises UnsupportedFeature with the field and its value for anything that the kernel would compute wrongly.
    """
    _refuse_fields(config)
    _refuse_layer_types(config)
    _refuse_own_attention(config)
    heads = config.num_attention_heads
    kv_heads = _kv_heads(config, heads)
    head_size = getattr(config, "head_dim", None) or config.hidden_size // heads
    if head_size not in HEAD_SIZES:
        supported = ", ".join(str(d) for d in HEAD_SIZES)
        raise UnsupportedFeature("head_dim", head_size, f"the kernel takes head sizes {supported}")
    if heads % kv_heads:
        raise UnsupportedFeature("num_key_value_heads", kv_heads, f"it does not divide num_attention_heads = {heads}")
    if heads // kv_heads > ROWS_MAX:
        raise UnsupportedFeature(
            "num_key_value_heads", kv_heads, f"{heads // kv_heads} query heads share one, the kernel takes {ROWS_MAX}"
        )
    layout = ModelLayout(model_name or _own_name(config), config.num_hidden_layers, heads, kv_heads, head_size)
    limit = getattr(config, "max_position_embeddings", None)
    return ModelFacts(layout, int(limit) if limit else None)


def _own_name(config: PreTrainedConfig) -> str:
    """The name the model was loaded by, without the folders of a local path; else its type."""
    name = str(getattr(config, "_name_or_path", "") or config.model_type)
    return PurePath(name).name if PurePath(name).is_absolute() else name


def _refuse_fields(config: PreTrainedConfig) -> None:
    for field, why in _REFUSED.items():
        value = getattr(config, field, None)
        if value is not None and value is not False and value != 0:
            raise UnsupportedFeature(field, value, why)
    if getattr(config, "is_causal", True) is False:
        raise UnsupportedFeature("is_causal", False, "the kernel's attention is causal")
    if config.model_type in _REFUSED_TYPES:
        raise UnsupportedFeature("model_type", config.model_type, _REFUSED_TYPES[config.model_type])
    positions = getattr(config, "position_embedding_type", None)
    if positions in _POSITIONS:
        raise UnsupportedFeature("position_embedding_type", positions, "the kernel adds no position bias")
    rank = getattr(config, "kv_lora_rank", None)
    if rank is not None:
        k_width = (getattr(config, "qk_nope_head_dim", 0) or 0) + (getattr(config, "qk_rope_head_dim", 0) or 0)
        raise UnsupportedFeature(
            "kv_lora_rank",
            rank,
            f"K and V must be equally wide; K has {k_width} elements (qk_nope_head_dim + qk_rope_head_dim), "
            f"V has {getattr(config, 'v_head_dim', None)} (v_head_dim)",
        )


def _refuse_layer_types(config: PreTrainedConfig) -> None:
    types = getattr(config, "layer_types", None)
    if types is None:
        chunk = getattr(config, "attention_chunk_size", None)
        if chunk is not None:
            raise UnsupportedFeature("attention_chunk_size", chunk, f"layers may be of type {', '.join(LAYER_TYPES)}")
        return
    other = sorted(set(types) - set(LAYER_TYPES))
    if other:
        raise UnsupportedFeature("layer_types", other, f"layers may be of type {', '.join(LAYER_TYPES)}")


def _refuse_own_attention(config: PreTrainedConfig) -> None:
    """Refuse a model whose code computes attention without asking transformers' registry for a function."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    mapping: Any = MODEL_FOR_CAUSAL_LM_MAPPING
    model = mapping.get(type(config), None)
    asks = getattr(model, "_can_set_attn_implementation", None)
    if asks is not None and not asks():
        raise UnsupportedFeature(
            "model_type",
            config.model_type,
            "its code computes attention itself, outside transformers' AttentionInterface",
        )


def _kv_heads(config: PreTrainedConfig, heads: int) -> int:
    if getattr(config, "multi_query", False):
        return 1
    value = getattr(config, "num_key_value_heads", None)
    return heads if value is None else int(value)
