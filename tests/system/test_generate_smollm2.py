# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 with its KV cache on two emulated cards writes what stock sdpa writes on the same FP16-rounded K and V.

Greedy decoding turns the smallest difference of two almost equal logits into another text. So a different token is
accepted only where stock's two best logits are closer than TIE, and it is printed; from there on the stock text is
forced and the comparison goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from nearkv import NearStorageCache
from nearkv.models.loading import LoadedModel, find_model, load_model

from tests.support.tiny_models import RoundedCache

CARDS = ["sw_emu:0", "sw_emu:1"]
TIE = 0.02  # logits spread by about 7; one element of K or V that rounds to its other neighbour can move them so far

PROMPTS = [
    "What is the capital of France? Answer in one sentence.",
    "List the numbers from 1 to 12, then count backwards from 1024 in steps of 64.",
    "Write a short story about a lighthouse keeper who finds a letter in a bottle.",
]


@pytest.fixture(scope="module")
def smollm2() -> Iterator[LoadedModel]:
    try:
        find_model("smollm2")
    except ValueError as missing:
        pytest.skip(str(missing))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield load_model("smollm2")
    torch.set_num_threads(before)


def chat(loaded: LoadedModel, prompts: list[str]) -> dict[str, torch.Tensor]:
    """The prompts as chat, padded on the left."""
    tokenizer: Any = loaded.tokenizer
    texts = [
        tokenizer.apply_chat_template([{"role": "user", "content": p}], add_generation_prompt=True, tokenize=False)
        for p in prompts
    ]
    encoded = tokenizer(texts, return_tensors="pt", padding=True)
    return {name: encoded[name] for name in ("input_ids", "attention_mask")}


def greedy(loaded: LoadedModel, inputs: dict[str, torch.Tensor], cache: Any, new_tokens: int) -> Any:
    """Exactly `new_tokens` tokens, the end token suppressed."""
    model: Any = loaded.model
    return model.generate(
        **inputs,
        cache=cache,
        max_new_tokens=new_tokens,
        min_new_tokens=new_tokens,
        do_sample=False,
        return_dict_in_generate=True,
        output_logits=True,
    )


def assert_equal_but_for_ties(loaded: LoadedModel, inputs: dict[str, torch.Tensor], new_tokens: int) -> torch.Tensor:
    """Compare both to the end; returns stock's sequences."""
    stock = greedy(loaded, inputs, RoundedCache(config=loaded.model.config), new_tokens)
    start, done = inputs["input_ids"].shape[1], 0
    while done < new_tokens:
        forced = stock.sequences[:, : start + done]
        mask = torch.cat([inputs["attention_mask"], torch.ones_like(forced[:, start:])], 1)
        with NearStorageCache(loaded.model.config, CARDS, model_name=loaded.name) as cache:
            ours = greedy(loaded, {"input_ids": forced, "attention_mask": mask}, cache, new_tokens - done)
            moved = cache.stats()
        assert moved.read_back_nbytes == 0
        payload = sum(card.link_down_payload + card.link_up_payload for card in moved.cards)
        assert payload == pytest.approx(moved.formula_link_nbytes, rel=0.01)
        different = ours.sequences != stock.sequences
        if not different.any():
            break
        at = int(different.any(0).nonzero()[0]) - start
        for row in different[:, start + at].nonzero().flatten().tolist():
            best = stock.logits[at][row].float().topk(2).values
            gap = float(best[0] - best[1])
            print(f"row {row}, token {at}: the two best logits differ by {gap:.4f}")  # noqa: T201
            assert gap < TIE
        done = at + 1
    return stock.sequences[:, start:]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_one_prompt_128_tokens(smollm2: LoadedModel, prompt: str) -> None:
    tokens = assert_equal_but_for_ties(smollm2, chat(smollm2, [prompt]), 128)
    if prompt is PROMPTS[0]:
        assert "Paris" in str(smollm2.tokenizer.decode(tokens[0, :16]))


def test_a_left_padded_batch(smollm2: LoadedModel) -> None:
    inputs = chat(smollm2, PROMPTS)
    assert len(set(inputs["attention_mask"].sum(1).tolist())) == 3
    assert_equal_but_for_ties(smollm2, inputs, 32)
