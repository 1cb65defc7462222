# SPDX-License-Identifier: Apache-2.0
"""Tells one model from another of the same name and shape. Reads a sample of its weights, changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import torch

from nearkv.models import fingerprint_digits

# Enough that training, merging an adapter, or quantizing again shows in every tensor that it changed.
_SAMPLES = 1024

# What of a configuration decides K and V beside weights and the rotation of positions, as transformers names it.
_FIELDS = (
    "rms_norm_eps",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "hidden_act",
    "hidden_activation",
    "activation_function",
    "sliding_window",
    "layer_types",
    "attn_logit_softcapping",
    "query_pre_attn_scalar",
    "attention_multiplier",
    "residual_multiplier",
    "embedding_multiplier",
    "use_parallel_residual",
    "do_layer_norm_before",
)


def model_fingerprint(model: Any) -> str:
    """Hexadecimal digits: those of the weights, then those of what else K and V depend on (`fingerprint_digits`)."""
    return weights_fingerprint(model) + _config_fingerprint(model)


def weights_fingerprint(model: Any) -> str:
    """Hexadecimal digits of names, shapes and evenly spaced values of all parameters, whatever device and type they
    are held in as long as the type holds them exactly. A change of few single values may go unseen."""
    digest = blake2b(digest_size=fingerprint_digits.WEIGHTS // 2)
    for name, weight in sorted(model.named_parameters()):
        digest.update(f"{name} {tuple(weight.shape)}\n".encode())
        values = weight.detach().reshape(-1)
        sample = values[:: max(1, values.numel() // _SAMPLES)]
        digest.update(sample.to("cpu", torch.float32).contiguous().numpy().astype("<f4").tobytes())
    return digest.hexdigest()


def _config_fingerprint(model: Any) -> str:
    """A later transformers may know more fields and call modules by other names, and is to give the same."""
    config = model.config.get_text_config(decoder=True)
    fields = {name: getattr(config, name, None) for name in _FIELDS}
    known = {name: _plain(value) for name, value in fields.items() if value is not None}
    text = json.dumps([known, sorted(set(_rotations(model)))])
    return blake2b(text.encode(), digest_size=fingerprint_digits.SETTINGS // 2).hexdigest()


def _plain(value: Any) -> Any:
    """256 and 256.0 are the same."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{value:.6g}" if is_number else value


def _rotations(model: Any) -> Iterator[str]:
    """How the model rotates positions: frequencies and factors. With three digits, since systems differ in the last."""
    for name, value in model.named_buffers():
        if name.endswith("inv_freq"):
            yield " ".join(f"{frequency:.3g}" for frequency in value.float().tolist())
    for module in model.modules():
        for name, value in vars(module).items():
            if name.endswith("attention_scaling") and isinstance(value, (int, float)):
                yield f"factor {value:.3g}"
