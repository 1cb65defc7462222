# SPDX-License-Identifier: Apache-2.0
"""What this machine's torch gives a decoder: products, weights read, and the time of a layer beside both.

Times are the best of some runs by `clock`: wall time, or a process's CPU time where the machine is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median
from typing import Any

from nearkv.errors import UserError
from nearkv.models.cache_keyword import cache_keyword

Clock = Callable[[], float]
BUSY = "the machine is too busy to measure; try again, or take CPU time (--cpu-time)"

PAIRS = 3  # KV heads of the decoder that is timed
# Its layers together are larger than caches, so that the calls between find caches as cold as a real model leaves them.
_LAYERS, _STEPS = 8, 12
_HIDDEN, _MLP, _HEADS, _HEAD_SIZE = 576, 1536, 9, 64
_OUT_IN = (
    (_HEADS * _HEAD_SIZE, _HIDDEN), (PAIRS * _HEAD_SIZE, _HIDDEN), (PAIRS * _HEAD_SIZE, _HIDDEN),
    (_HIDDEN, _HEADS * _HEAD_SIZE), (_MLP, _HIDDEN), (_MLP, _HIDDEN), (_HIDDEN, _MLP),
)  # fmt: skip
_LAYER_WEIGHTS = sum(out * into for out, into in _OUT_IN)
_VOCAB = 32768
# Libraries choose another way of multiplying by the number of rows, so the few are taken one by one.
ROWS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64)


@dataclass(frozen=True)
class Arithmetic:
    """flop_s: of large products. layer_rows, head_rows: (rows, bytes of weights per second) in products of a layer and
    of the head, 2 bytes each weight whatever torch holds, as the planner counts. attention_s: bytes of FP16 K and V of
    CPU attention. layer_s: what a layer takes beside reading its weights. card_layer_s: what it takes more with
    its attention on an emulated card, over a few tokens of `PAIRS` heads."""

    flop_s: float
    layer_rows: tuple[tuple[int, float], ...]
    head_rows: tuple[tuple[int, float], ...]
    attention_s: float
    layer_s: float
    card_layer_s: float

    @property
    def weights_s(self) -> float:
        """Bytes of a layer's weights per second with one row."""
        return self.layer_rows[0][1]


def arithmetic(device: str, clock: Clock, card: str = "sw_emu:0?dram=256M") -> Arithmetic:
    """Takes some seconds. `card`: the URL of the card whose calls are timed."""
    import torch

    with torch.inference_mode():
        flop_s = _flop_s(device, clock)
        layer_rows = by_rows([_OUT_IN] * _LAYERS, device, clock)
        head_rows = by_rows([((_VOCAB, _HIDDEN),)], device, clock)
        halves = torch.rand(2, 8, 8192, 64, device=device).half()
        q = torch.rand(8, 1, 64, device=device)

        def attend() -> None:
            k, v = halves[0].float(), halves[1].float()
            torch.nn.functional.scaled_dot_product_attention(q, k, v)
            _wait(device)

        attention_s = halves.nbytes / _best(attend, clock)
        plain = layer_s(device, clock, None)
        near = layer_s(device, clock, card)
    beside = max(0.0, plain - 2 * _LAYER_WEIGHTS / layer_rows[0][1])
    if near <= plain:
        raise UserError(
            f"a layer with its attention on a card took {near * 1e3:.2f} ms and without {plain * 1e3:.2f} ms: {BUSY}"
        )
    return Arithmetic(flop_s, layer_rows, head_rows, attention_s, beside, near - plain)


def _flop_s(device: str, clock: Clock) -> float:
    """Of products whose weights, 96 MiB, are more than caches hold."""
    import torch

    side, rows = 1024, 256
    weights = [torch.rand(side, side, device=device) for _ in range(24)]
    many = torch.rand(rows, side, device=device)

    def products() -> None:
        for w in weights:
            many @ w
        _wait(device)

    return 2 * rows * len(weights) * side * side / _best(products, clock)


def by_rows(layers: Sequence[Sequence[tuple[int, int]]], device: str, clock: Clock) -> tuple[tuple[int, float], ...]:
    """(rows, bytes of weights per second) of the layers' products as a model computes them."""
    import torch

    weights = [torch.rand(out, into, device=device) for layer in layers for out, into in layer]
    nbytes = 2 * sum(weight.numel() for weight in weights)
    found = []
    for rows in ROWS:
        x = {into: torch.rand(rows, 1, into, device=device) for into in {weight.shape[1] for weight in weights}}

        def products(x: dict[int, Any] = x) -> None:
            for weight in weights:
                torch.nn.functional.linear(x[weight.shape[1]], weight)
            _wait(device)

        found.append((rows, nbytes / _best(products, clock)))
    return tuple(found)


def layer_s(device: str, clock: Clock, card: str | None) -> float:
    """Seconds per layer and step of a small decoder with torch's own cache, or with its cache on a card."""
    import torch
    from transformers import DynamicCache, LlamaConfig
    from transformers.models.auto.modeling_auto import AutoModelForCausalLM

    config = LlamaConfig(
        vocab_size=64,
        hidden_size=_HIDDEN,
        intermediate_size=_MLP,
        num_hidden_layers=_LAYERS,
        num_attention_heads=_HEADS,
        num_key_value_heads=PAIRS,
        head_dim=_HEAD_SIZE,
    )
    build: Any = AutoModelForCausalLM.from_config
    model = build(config).eval().to(device)
    if card is None:
        return _steps(model, DynamicCache(), torch, device, clock)
    from nearkv.adapters.transformers import NearStorageCache

    with closing(NearStorageCache(model.config, [card])) as cache:
        return _steps(model, cache, torch, device, clock)


def _steps(model: Any, cache: Any, torch: Any, device: str, clock: Clock) -> float:
    ids = torch.arange(32, device=device)[None] % 64
    held = {cache_keyword(model): cache}
    model(input_ids=ids, use_cache=True, **held)
    times = []
    for _ in range(_STEPS):
        began = clock()
        model(input_ids=ids[:, :1], use_cache=True, **held)
        _wait(device)
        times.append(clock() - began)
    return median(times) / _LAYERS


def _best(call: Callable[[], None], clock: Clock, runs: int = 7) -> float:
    times = []
    for _ in range(runs):
        began = clock()
        call()
        times.append(clock() - began)
    return max(min(times), 1e-9)


def _wait(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()
