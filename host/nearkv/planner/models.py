# SPDX-License-Identifier: Apache-2.0
"""Shapes of decoder models and what follows from them: bytes of K and V, of X, of weights, and FLOPs.

A shape comes from a known name or from a config.json in transformers' format. Nothing of torch is needed.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from nearkv_driver.bounded_file import FileRefused, read_file

from nearkv.errors import UserError, one_line

_COUNT_MAX = 1 << 24
_LAYERS_MAX = 4096  # a trace simulates each
_CONFIG_NBYTES_MAX = 16 << 20
# Models whose MLP has no gate: two matrices instead of three.
_PLAIN_MLP = {
    "opt",
    "gpt2",
    "gpt_neox",
    "gptj",
    "phi",
    "bloom",
    "falcon",
    "starcoder2",
    "gpt_bigcode",
    "stablelm_epoch",
}
_KEYS = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "n_embd"),
    "heads": ("num_attention_heads", "n_head"),
    "intermediate": ("intermediate_size", "ffn_dim", "n_inner"),
    "vocab": ("vocab_size",),
}
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_CACHING = ("full_attention", "sliding_attention")  # kinds of layers that keep K and V of heads
_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


@dataclass(frozen=True)
class ModelShape:
    """One decoder: `heads` query heads and `kv_heads` of `head_size`; an MLP of `mlp_matrices` per expert. `shared`:
    columns of an MLP that all tokens use beside their experts. `positions`: tokens that it is made for, 0 where that is
    not known. `window`: tokens that some layers look back at most, 0 where all see everything."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocab: int
    mlp_matrices: int = 3
    tied: bool = False
    experts: int = 1
    active_experts: int = 1
    shared: int = 0
    positions: int = 0
    window: int = 0

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name in ("name", "tied"):
                continue
            most = _LAYERS_MAX if entry.name == "layers" else _COUNT_MAX
            least = 0 if entry.name in ("shared", "positions", "window") else 1
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise UserError(
                    f"{self.name}: {entry.name} is {value!r}; a whole number from {least} to {most} is expected"
                )
        if self.heads % self.kv_heads:
            raise UserError(f"{self.name}: heads = {self.heads} is no multiple of kv_heads = {self.kv_heads}")
        if self.active_experts > self.experts:
            raise UserError(f"{self.name}: active_experts = {self.active_experts} of {self.experts} experts")

    @property
    def group(self) -> int:
        """Query heads per KV head."""
        return self.heads // self.kv_heads

    @property
    def attention_parameters(self) -> int:
        """Of one layer: projections of q, k, v and of the output."""
        return 2 * self.hidden * self.head_size * (self.heads + self.kv_heads)

    @property
    def expert_parameters(self) -> int:
        return self.mlp_matrices * self.hidden * self.intermediate

    @property
    def shared_parameters(self) -> int:
        """Of the MLP beside the experts of one layer."""
        return self.mlp_matrices * self.hidden * self.shared

    @property
    def layer_parameters(self) -> int:
        return self.attention_parameters + self.shared_parameters + self.experts * self.expert_parameters

    @property
    def embedding_parameters(self) -> int:
        return self.vocab * self.hidden * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        return self.layers * self.layer_parameters + self.embedding_parameters

    def kv_nbytes_per_token(self, element_nbytes: float = 2) -> float:
        """K and V of one token, all layers: 2 x layers x KV heads x head size x bytes of an element."""
        return 2 * self.layers * self.kv_heads * self.head_size * element_nbytes

    def x_nbytes_per_token(self, element_nbytes: float = 2) -> float:
        """The activations from which K and V can be computed again, all layers."""
        return self.layers * self.hidden * element_nbytes

    def kv_formula(self, tokens: int, batch: int, element_nbytes: float = 2) -> str:
        """How the size of the KV cache comes about, for people."""
        per_token = self.kv_nbytes_per_token(element_nbytes)
        return (
            f"2 x {self.layers} layers x {self.kv_heads} KV heads x {self.head_size} x {element_nbytes:g} bytes = "
            f"{per_token:.15g} bytes per token; x {tokens} tokens x {batch} sequences = "
            f"{per_token * tokens * batch / 2**30:g} GiB"
        )

    def loaded_experts(self, tokens: int) -> float:
        """Experts of a layer that `tokens` tokens need, drawn evenly."""
        return self.experts * (1 - (1 - self.active_experts / self.experts) ** tokens)


def find_model(name: str) -> ModelShape:
    """A known name, or a folder (or file) with a config.json. UserError says what is wrong."""
    known = _known()
    if name.lower() in known:
        return known[name.lower()]
    path = Path(name)
    if os.path.isdir(path):  # Path.is_dir raises where a name is too long
        path = path / "config.json"
    elif not name.endswith(".json"):
        raise UserError(f"no model is called {name!r}; known: {', '.join(known)}; or give a folder with a config.json")
    try:
        config = json.loads(read_file(path, _CONFIG_NBYTES_MAX).decode("utf-8"))
    except FileRefused as error:
        raise UserError(f"model configuration {path} {error.reason}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON: {one_line(error)}") from error
    return from_config(config, Path(os.path.abspath(path)).parent.name if path.name == "config.json" else path.stem)


def from_config(config: Mapping[str, Any], name: str) -> ModelShape:
    """A shape from transformers' configuration as a mapping."""
    if not isinstance(config, Mapping):
        raise UserError(f"{name}: the configuration is a {type(config).__name__}; an object is expected")
    inner = config.get("text_config")
    text = {**config, **inner} if isinstance(inner, Mapping) else config
    found = {
        field: next((text[key] for key in keys if text.get(key) is not None), None) for field, keys in _KEYS.items()
    }
    experts = next((text[key] for key in _EXPERTS if text.get(key)), 1)
    if experts != 1 and text.get("moe_intermediate_size") is not None:
        found["intermediate"] = text["moe_intermediate_size"]
    if found["intermediate"] is None and isinstance(found["hidden"], int):
        found["intermediate"] = 4 * found["hidden"]
    missing = [_KEYS[field][0] for field, value in found.items() if value is None]
    if missing:
        raise UserError(f"{name}: the configuration lacks {', '.join(missing)}")
    if text.get("kv_lora_rank"):
        raise UserError(f"{name}: kv_lora_rank is {text['kv_lora_rank']!r}: what such a model caches is no K and V of "
                        "heads, which is all that is planned for")  # fmt: skip
    kinds = text.get("layer_types")
    odd = [kind for kind in kinds if kind not in _CACHING] if isinstance(kinds, list) else []
    if odd:
        raise UserError(f"{name}: layer_types has {odd[0]!r}: such a layer caches no K and V of heads, which are all "
                        "that is planned for")  # fmt: skip
    positions = next((text[key] for key in _POSITIONS if text.get(key) is not None), 0)
    if isinstance(positions, int) and positions > _COUNT_MAX:
        positions = 0  # no limit that matters
    heads = found["heads"]
    head_size = text.get("head_dim")
    if head_size is None and isinstance(heads, int) and heads > 0 and isinstance(found["hidden"], int):
        head_size, rest = divmod(found["hidden"], heads)
        if rest:
            raise UserError(f"{name}: hidden = {found['hidden']} is no multiple of heads = {heads}, and there is no "
                            "head_dim")  # fmt: skip
    return ModelShape(
        name=name,
        **found,  # type: ignore[arg-type]
        kv_heads=_kv_heads(text, heads),
        head_size=head_size,  # type: ignore[arg-type]
        mlp_matrices=2 if str(text.get("model_type")) in _PLAIN_MLP else 3,
        tied=bool(text.get("tie_word_embeddings", True)),
        experts=experts,
        active_experts=text.get("num_experts_per_tok") or 1,
        shared=_shared(text, found["intermediate"]) if experts != 1 else 0,
        window=(text.get("sliding_window") or 0) if text.get("use_sliding_window", True) else 0,
        positions=positions,
    )


def _shared(text: Mapping[str, Any], intermediate: Any) -> Any:
    """Columns beside the experts: said by themselves (Qwen-MoE), or as a number of experts (DeepSeek-MoE, GLM)."""
    columns, count = text.get("shared_expert_intermediate_size"), text.get("n_shared_experts")
    if columns is None and isinstance(count, int) and isinstance(intermediate, int):
        return count * intermediate
    return columns or count or 0


def _kv_heads(text: Mapping[str, Any], heads: Any) -> Any:
    """What a configuration says, under any of its names; all query heads have their own where it says nothing.

    Falcon's newer blocks count theirs in num_kv_heads; its older ones and GPTBigCode have one where `multi_query` is
    set, which is their default.
    """
    kind = str(text.get("model_type"))
    if kind == "gpt_bigcode" or (kind == "falcon" and not text.get("new_decoder_architecture")):
        return 1 if text.get("multi_query", True) else heads
    keys = ("num_key_value_heads", "num_kv_heads")
    return next((text[key] for key in keys if text.get(key) is not None), heads)


@cache
def _known() -> dict[str, ModelShape]:
    table = tomllib.loads(files("nearkv.planner").joinpath("models.toml").read_text(encoding="utf-8"))
    return {name: ModelShape(name=name, **shape) for name, shape in table.items()}
