# SPDX-License-Identifier: Apache-2.0
"""A decoded token of SmolLM2 through simulated RTL, all 30 layers: the bits that the HLS source gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from nearkv import NearStorageCache
from nearkv.models.loading import LoadedModel, find_model, load_model
from nearkv.models.runtime import torch_threads
from nearkv.stats import CardStats

from tests.support.rtl_tools import needs_verilator, patient

pytestmark = [needs_verilator, patient]

CONTEXT, NEW_TOKENS = 210, 2  # tokens of the prompt; the first new one comes from prefill, the second from the cards
TEXT = "The kernel reads keys and values in blocks of tokens, and every block is checked before it is used. " * 20


@pytest.fixture(scope="module")
def smollm2() -> Iterator[LoadedModel]:
    try:
        find_model("smollm2")
    except ValueError as missing:
        pytest.skip(str(missing))
    with torch_threads(1):
        yield load_model("smollm2")


@contextmanager
def kept_outputs(model: Any) -> Iterator[list[torch.Tensor]]:
    """What attention of each layer gives for single tokens, in order."""
    kept: list[torch.Tensor] = []

    def keep(module: object, inputs: object, outputs: tuple[torch.Tensor, ...]) -> None:
        if outputs[0].shape[1] == 1:
            kept.append(outputs[0].clone())

    hooks = [layer.self_attn.register_forward_hook(keep) for layer in model.model.layers]
    try:
        yield kept
    finally:
        for hook in hooks:
            hook.remove()


def decoded(loaded: LoadedModel, cards: list[str]) -> tuple[list[torch.Tensor], torch.Tensor, Any, list[CardStats]]:
    """Attention outputs by step and layer, logits and tokens of the new tokens, and what the cards counted."""
    model: Any = loaded.model
    tokenizer: Any = loaded.tokenizer
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"][:, :CONTEXT]
    assert ids.shape[1] == CONTEXT
    with NearStorageCache(model.config, cards, model_name=loaded.name) as cache, kept_outputs(model) as kept:
        out = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            cache=cache,
            max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
        )
        stats = cache.stats()
    return kept, torch.stack(out.logits), out.sequences[0, CONTEXT:].tolist(), list(stats.cards)


def test_every_layer_of_a_decoded_token_is_that_of_sw_emu(smollm2: LoadedModel) -> None:
    want, want_logits, want_tokens, _ = decoded(smollm2, ["sw_emu:0"])
    cards = ["hw_emu:0?memory=ddr4-2400", "hw_emu:1?stall=10&reorder=10&seed=2"]
    got, logits, tokens, stats = decoded(smollm2, cards)
    layers = 30
    assert len(want) == len(got) == layers * (NEW_TOKENS - 1)
    different = [i for i, (a, b) in enumerate(zip(want, got, strict=True)) if not torch.equal(a, b)]
    assert different == []
    assert torch.equal(logits, want_logits)
    assert tokens == want_tokens
    # Three KV heads, d = 64: two words for K and two for V of each stored token.
    words = 3 * 4 * (CONTEXT * layers * (NEW_TOKENS - 1))
    assert sum(card.kernel_beats for card in stats) >= words
    for card in stats:
        print(f"{card.url}: {card.kernel_beats} words, {card.kernel_cycles} cycles in {card.lists} lists")  # noqa: T201
        assert card.kernel_cycles > card.kernel_beats
