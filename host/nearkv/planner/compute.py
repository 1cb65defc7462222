# SPDX-License-Identifier: Apache-2.0
"""Seconds of the model's own arithmetic on a GPU or CPU, by roofline: products or bytes, the slower. No transfers."""

from __future__ import annotations

from nearkv.planner.hardware import Gpu
from nearkv.planner.models import ModelShape


def products_s(gpu: Gpu, flop: float, nbytes: float) -> float:
    """Seconds of matrix products: bound by arithmetic or by the bytes that the GPU's memory gives."""
    return max(flop / (gpu.compute * gpu.efficiency), nbytes / gpu.memory_rate)


def weights_s(gpu: Gpu, rows: float, parameters: float, *, head: bool = False) -> float:
    """Products of `rows` rows with so many weights. Where the GPU's products were measured by their rows that is what
    they take, as libraries need not follow a roofline (two rows can take longer than four)."""
    measured, known = gpu.by_rows.seconds(2 * parameters, rows, head=head)
    return measured if known else max(measured, products_s(gpu, 2 * rows * parameters, 2 * parameters))


def projections_s(gpu: Gpu, model: ModelShape, tokens: int) -> float:
    """q, k and v of one layer for `tokens` tokens, which lie before the attention."""
    parameters = model.hidden * model.head_size * (model.heads + 2 * model.kv_heads)
    return weights_s(gpu, tokens, parameters) + gpu.layer_overhead / 2


def rest_of_layer_s(gpu: Gpu, model: ModelShape, tokens: int) -> float:
    """Output projection and MLP. Experts that are used share the rows evenly."""
    output = model.hidden * model.head_size * model.heads
    loaded = model.loaded_experts(tokens)
    if gpu.by_rows.layer:
        mlp = weights_s(gpu, tokens * model.active_experts / loaded, loaded * model.expert_parameters)
        always = weights_s(gpu, tokens, output) + weights_s(gpu, tokens, model.shared_parameters)
        return always + mlp + gpu.layer_overhead / 2
    output += model.shared_parameters
    work = 2 * tokens * (output + model.active_experts * model.expert_parameters)
    return products_s(gpu, work, 2 * (output + loaded * model.expert_parameters)) + gpu.layer_overhead / 2


def head_s(gpu: Gpu, model: ModelShape, tokens: int) -> float:
    """Logits and the choice of tokens, once per step."""
    return weights_s(gpu, tokens, model.vocab * model.hidden, head=True) + gpu.layer_overhead


def attention_s(gpu: Gpu, model: ModelShape, pairs: float, context: float, queries: int, element: float) -> float:
    """Attention of one layer over K and V that lie in the GPU's memory."""
    flop = 4 * pairs * model.group * queries * context * model.head_size
    return products_s(gpu, flop, 2 * pairs * context * model.head_size * element)


def recompute_s(gpu: Gpu, model: ModelShape, share: float, batch: int, context: float) -> float:
    """K and V of one layer from X, for a share of heads and sequences."""
    columns = 2 * model.kv_heads * model.head_size
    return products_s(gpu, 2 * share * batch * context * model.hidden * columns, 0)


def prefill_layer_s(gpu: Gpu, model: ModelShape, tokens: int, batch: int) -> float:
    """One layer over whole prompts: products of all tokens, attention over half of all pairs of tokens."""
    active = model.attention_parameters + model.shared_parameters + model.active_experts * model.expert_parameters
    flop = 2.0 * batch * tokens * active + 2.0 * batch * model.heads * model.head_size * tokens**2
    return products_s(gpu, flop, 2 * model.layer_parameters) + gpu.layer_overhead
