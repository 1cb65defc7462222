# SPDX-License-Identifier: Apache-2.0
"""Beam search, drafts and growing batches on two emulated cards: the tokens of stock sdpa on FP16-rounded K and V."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from nearkv import NearStorageCache
from nearkv.models.loading import LoadedModel, find_model, load_model
from nearkv.stats import StoreStats

from tests.support.tiny_models import RoundedCache, assert_same, generate, prompt, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

CARDS = ["sw_emu:0", "sw_emu:1"]
END = {"eos_token_id": 96}  # drafting needs an end token; this one does not come


@pytest.fixture(scope="module")
def smollm2() -> LoadedModel:
    try:
        find_model("smollm2")
    except ValueError as missing:
        pytest.skip(str(missing))
    return load_model("smollm2")


def stock(model: Any) -> RoundedCache:
    return RoundedCache(config=model.config)


def chat(loaded: LoadedModel, text: str) -> dict[str, torch.Tensor]:
    tokenizer: Any = loaded.tokenizer
    message = [{"role": "user", "content": text}]
    encoded = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=True, return_tensors="pt")
    return {name: encoded[name] for name in ("input_ids", "attention_mask")}


def written(stats: StoreStats) -> int:
    return sum(card.media_write_nbytes for card in stats.cards)


def beats(stats: StoreStats) -> int:
    return sum(card.kernel_beats for card in stats.cards)


@pytest.mark.parametrize("name", ["llama group 3 d 64", "llama group 4 d 128", "mistral window 7"])
def test_beams_whose_rows_lie_in_every_tier(name: str) -> None:
    """Prompts of several units; the beams pass unit borders while they are reordered."""
    model, inputs = tiny_model(name), prompt([70, 130])
    many = {"num_beams": 3, "num_return_sequences": 3, "output_scores": True}
    expected = generate(model, stock(model), inputs, new_tokens=40, **many)
    with NearStorageCache(model.config, CARDS) as cache:
        ours = generate(model, cache, inputs, new_tokens=40, **many)
        stats = cache.stats()
        cache.reset()
        assert [card.resident_nbytes for card in cache.stats().cards] == [0, 0]
    assert torch.equal(ours.sequences, expected.sequences)
    torch.testing.assert_close(ours.sequences_scores, expected.sequences_scores, rtol=1e-3, atol=1e-3)
    assert stats.read_back_nbytes == 0


def test_reordering_moves_no_stored_row() -> None:
    model, inputs = tiny_model("llama group 3 d 64"), prompt([100, 100, 100])
    with NearStorageCache(model.config, CARDS) as cache, torch.no_grad():
        model(**inputs, cache=cache)
        before = cache.stats()
        for order in ([2, 2, 0], [1, 0, 2], [0, 0, 0], [1, 2, 0]):
            cache.reorder_cache(torch.tensor(order))
        after = cache.stats()
        model(torch.tensor([[5], [6], [7]]), cache=cache)
    assert (written(after), beats(after), after.read_back_nbytes) == (written(before), beats(before), 0)
    assert sum(card.media_read_nbytes for card in after.cards) == sum(card.media_read_nbytes for card in before.cards)


def test_one_prefill_copies_and_turns() -> None:
    model, inputs = tiny_model("qwen2 group 7"), prompt([75])
    results = []
    for cache in (stock(model), NearStorageCache(model.config, CARDS)):
        with torch.no_grad():
            model(**inputs, cache=cache)
            cache.batch_repeat_interleave(4)
            logits = [model(torch.arange(5, 45).reshape(4, 10), cache=cache).logits]
            cache.batch_select_indices(torch.tensor([3, 3, 1]))
            logits += [model(torch.arange(9, 12)[:, None], cache=cache).logits for _ in range(40)]
            cache.batch_select_indices(torch.tensor([2]))
            logits.append(model(torch.tensor([[14, 15]]), cache=cache).logits)
        results.append(logits)
        if isinstance(cache, NearStorageCache):
            cache.close()
    for theirs, ours in zip(*results, strict=True):
        assert torch.equal(theirs.argmax(-1), ours.argmax(-1))
        assert float((theirs - ours).abs().max()) < 2e-3 * float(theirs.std())


def test_samples_and_a_second_turn_on_the_chosen_one() -> None:
    model, inputs = tiny_model("llama group 3 d 64"), prompt([40])
    results = []
    for cache in (stock(model), NearStorageCache(model.config, CARDS)):
        torch.manual_seed(5)
        many = model.generate(**inputs, cache=cache, max_new_tokens=6, do_sample=True, num_return_sequences=3)
        cache.batch_select_indices(torch.tensor([1]))
        turn = {"input_ids": torch.cat([many[1:2], torch.tensor([[8, 9]])], 1)}
        results.append((many, generate(model, cache, turn)))
        if isinstance(cache, NearStorageCache):
            cache.close()
    assert torch.equal(results[0][0], results[1][0])
    assert_same(results[1][1], results[0][1])


def test_an_assistant_saves_reads_of_the_stored_rows() -> None:
    model, inputs = tiny_model("llama group 3 d 64"), prompt([90])
    assistant = tiny_model("llama group 3 d 64")
    assistant.generation_config.num_assistant_tokens = 4
    assistant.generation_config.num_assistant_tokens_schedule = "constant"
    expected = generate(model, stock(model), inputs, new_tokens=24, **END)
    read = []
    for more in ({}, {"assistant_model": assistant}):
        with NearStorageCache(model.config, CARDS) as cache:
            ours = generate(model, cache, inputs, new_tokens=24, **END, **more)
            read.append(beats(cache.stats()))
        assert torch.equal(ours.sequences, expected.sequences)
    assert read[1] < read[0] / 2


def test_smollm2_beams(smollm2: LoadedModel) -> None:
    model: Any = smollm2.model
    inputs = chat(smollm2, "What is the capital of France? Answer in one sentence.")
    many = {"num_beams": 3, "num_return_sequences": 3, "output_scores": True}
    expected = generate(model, stock(model), inputs, new_tokens=10, **many)
    with NearStorageCache(model.config, CARDS, model_name=smollm2.name) as cache:
        ours = generate(model, cache, inputs, new_tokens=10, **many)
    assert torch.equal(ours.sequences, expected.sequences)
    assert "Paris" in str(smollm2.tokenizer.decode(ours.sequences[0]))


def test_smollm2_prompt_lookup(smollm2: LoadedModel) -> None:
    """A text that is to be repeated: drafts are accepted, and several query rows share one read of the stored rows."""
    model: Any = smollm2.model
    text = "Seven grey cats sat on the wall of the old mill and watched the slow brown river go by."
    inputs = chat(smollm2, f"Repeat this sentence word for word: {text}")
    expected = generate(model, stock(model), inputs, new_tokens=20)
    read = {}
    for drafted in (None, 5):
        with NearStorageCache(model.config, CARDS, model_name=smollm2.name) as cache:
            ours = generate(model, cache, inputs, new_tokens=20, prompt_lookup_num_tokens=drafted)
            new = ours.sequences.shape[1] - inputs["input_ids"].shape[1]
            read[drafted] = beats(cache.stats()) * 64 / new
        assert torch.equal(ours.sequences, expected.sequences)
    print(f"K and V read per new token: {read[None]:.0f} bytes, with drafts {read[5]:.0f} bytes")  # noqa: T201
    assert read[5] < 0.6 * read[None]
