# SPDX-License-Identifier: Apache-2.0
"""Build a transformers Llama model from a GGUF file of architecture `llama`. Any tensor it has no place for is refused.

Weights keep the bits that the file's formats stand for; only Q and K rows move, since the file stores rotary pairs
interleaved and transformers wants the two halves apart.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearkv.models.gguf import GGUF

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM

_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_BLOCK = {
    "attn_norm.weight": "input_layernorm.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}


def build_config(gguf: GGUF) -> LlamaConfig:
    """The model's config; ValueError for another architecture, a scaled rotary embedding or impossible sizes."""
    from transformers import LlamaConfig

    architecture = gguf.string("general.architecture")
    if architecture != "llama":
        raise ValueError(f"{gguf.path}: general.architecture is {architecture!r}; only 'llama' is supported")
    scaling = gguf.string("llama.rope.scaling.type", "none")
    if scaling != "none":
        raise ValueError(f"{gguf.path}: llama.rope.scaling.type is {scaling!r}; only 'none' is supported")
    if "token_embd.weight" not in gguf.tensors:
        raise ValueError(f"{gguf.path}: no tensor 'token_embd.weight'")
    hidden, heads = gguf.number("llama.embedding_length"), gguf.number("llama.attention.head_count")
    kv_heads = gguf.number("llama.attention.head_count_kv", heads)
    if heads < 1 or kv_heads < 1 or heads % kv_heads or hidden % heads:
        raise ValueError(
            f"{gguf.path}: embedding_length {hidden}, head_count {heads} and head_count_kv {kv_heads} do not divide"
        )
    head_size = gguf.number("llama.rope.dimension_count", hidden // heads)
    if head_size < 2 or head_size % 2:
        raise ValueError(f"{gguf.path}: head size {head_size} (llama.rope.dimension_count); it must be even, not zero")
    layers, context = gguf.number("llama.block_count"), gguf.number("llama.context_length")
    # Each layer has tensors, so a damaged count shows before memory is taken for that many layers.
    if not 1 <= layers <= len(gguf.tensors):
        raise ValueError(f"{gguf.path}: llama.block_count is {layers}, the file has {len(gguf.tensors)} tensors")
    if context < 1:
        raise ValueError(f"{gguf.path}: llama.context_length is {context}; it must be at least 1")
    return LlamaConfig(
        vocab_size=gguf.tensors["token_embd.weight"].shape[0],
        hidden_size=hidden,
        intermediate_size=gguf.number("llama.feed_forward_length"),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_size,
        max_position_embeddings=context,
        rms_norm_eps=_above_zero(gguf, "llama.attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": _above_zero(gguf, "llama.rope.freq_base", 10000.0)},
        tie_word_embeddings="output.weight" not in gguf.tensors,
        bos_token_id=_token(gguf, "bos"),
        eos_token_id=_token(gguf, "eos"),
        pad_token_id=_token(gguf, "padding"),
    )


def build_model(gguf: GGUF) -> LlamaForCausalLM:
    """The model in FP32, in evaluation mode."""
    import torch
    from transformers import GenerationConfig, LlamaForCausalLM

    config = build_config(gguf)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    state = {}
    for name in gguf.tensors:
        target = _target(gguf, name, config.num_hidden_layers)
        array = gguf.array(name)
        if array.shape != wanted[target]:
            raise ValueError(
                f"{gguf.path}: tensor {name!r} has shape {array.shape}, the config asks for {wanted[target]}"
            )
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            kv_heads = config.num_key_value_heads or config.num_attention_heads
            array = _rotary_halves(array, kv_heads if name.endswith("attn_k.weight") else config.num_attention_heads)
        state[target] = torch.from_numpy(array)
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    missing = sorted(wanted.keys() - state.keys())
    if missing:
        raise ValueError(f"{gguf.path}: {len(missing)} tensors are missing, among them that of {missing[0]!r}")
    model.load_state_dict(state, assign=True)
    model.tie_weights()
    # The rotary tables are no weights: they were made on the meta device, so they are made again.
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    model.generation_config = GenerationConfig.from_model_config(config)
    model.train(False)
    return model


def _token(gguf: GGUF, which: str) -> int | None:
    key = f"tokenizer.ggml.{which}_token_id"
    return gguf.number(key) if key in gguf.fields else None


def _above_zero(gguf: GGUF, key: str, default: float | None = None) -> float:
    value = gguf.real(key, default)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{gguf.path}: {key} is {value}; a finite number above 0 is expected")
    return value


def _target(gguf: GGUF, name: str, layers: int) -> str:
    """The transformers name of a tensor."""
    if name in _TOP:
        return _TOP[name]
    head, _, rest = name.partition(".")
    index, _, part = rest.partition(".")
    if head == "blk" and index.isdecimal() and int(index) < layers and part in _BLOCK:
        return f"model.layers.{int(index)}.{_BLOCK[part]}"
    raise ValueError(f"{gguf.path}: tensor {name!r} has no place in a llama model of {layers} layers")


def _rotary_halves(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows (0, 1, 2, 3, ...) of each head, pairs side by side, as (0, 2, ..., 1, 3, ...)."""
    paired = rows.reshape(heads, -1, 2, rows.shape[-1])
    return np.ascontiguousarray(paired.swapaxes(1, 2)).reshape(rows.shape)
