# SPDX-License-Identifier: Apache-2.0
"""generate() with a NearStorageCache gives what stock sdpa gives on K and V rounded to FP16, for each shape."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from nearkv import NearStorageCache
from transformers import TextStreamer

from tests.support.fake_store import FakeStore
from tests.support.tiny_models import CONFIGS, RoundedCache, assert_same, generate, prompt, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")


def near(model: Any, store: FakeStore | None = None) -> NearStorageCache:
    return NearStorageCache(model.config, store=store or FakeStore())


def stock(model: Any) -> RoundedCache:
    return RoundedCache(config=model.config)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("lengths", [[11], [4, 11, 1]], ids=["one prompt", "left padded"])
def test_tokens_and_logits_equal_stock(name: str, lengths: list[int]) -> None:
    model, inputs = tiny_model(name), prompt(lengths)
    expected = generate(model, stock(model), inputs)
    with near(model) as cache:
        assert_same(generate(model, cache, inputs), expected)


def test_the_old_keyword_works_too() -> None:
    model, inputs = tiny_model("llama group 3 d 64"), prompt([5])
    expected = generate(model, stock(model), inputs)
    with near(model) as cache, pytest.warns(FutureWarning, match="past_key_values"):
        ours = model.generate(**inputs, past_key_values=cache, max_new_tokens=12, do_sample=False)
    assert torch.equal(ours, expected.sequences)


def test_decode_runs_on_the_store_and_prefill_does_not() -> None:
    model, store = tiny_model("llama group 3 d 64"), FakeStore()
    with near(model, store) as cache:
        generate(model, cache, prompt([5, 9]), new_tokens=4)
    assert store.calls == ["append"] * 2 + ["attend"] * 2 * 3


@pytest.mark.parametrize("name", ["llama group 3 d 64", "mistral window 7", "gemma3 windows in some layers"])
@pytest.mark.parametrize(("chunk", "way"), [(4, "attend"), (40, "read")])
def test_chunked_prefill(name: str, chunk: int, way: str) -> None:
    model, inputs, store = tiny_model(name), prompt([90, 47]), FakeStore()
    expected = generate(model, stock(model), inputs)
    with near(model, store) as cache:
        assert_same(generate(model, cache, inputs, prefill_chunk_size=chunk), expected)
    assert way in store.calls


@pytest.mark.parametrize("name", ["llama group 3 d 64", "mistral window 7"])
def test_second_turn_on_the_same_cache(name: str) -> None:
    model, inputs = tiny_model(name), prompt([6, 13])
    ours, theirs = near(model), stock(model)
    with ours:
        for turn in range(3):
            first = generate(model, ours, inputs, new_tokens=5)
            assert_same(first, generate(model, theirs, inputs, new_tokens=5))
            more = prompt([4, 4], seed=20 + turn)
            ids = torch.cat([first.sequences, more["input_ids"]], 1)
            mask = torch.cat([inputs["attention_mask"], torch.ones((2, 5 + 4), dtype=torch.long)], 1)
            inputs = {"input_ids": ids, "attention_mask": mask}


BEAMED = ["llama group 3 d 64", "mistral window 7", "gemma3 windows in some layers", "opt learned positions"]


@pytest.mark.parametrize("name", BEAMED)
@pytest.mark.parametrize(("beams", "lengths"), [(3, [11]), (4, [4, 11])], ids=["one prompt", "left padded"])
def test_beam_search(name: str, beams: int, lengths: list[int]) -> None:
    model, inputs, store = tiny_model(name), prompt(lengths), FakeStore()
    many = {"num_beams": beams, "num_return_sequences": 2, "output_scores": True}
    expected = generate(model, stock(model), inputs, **many)
    with near(model, store) as cache:
        ours = generate(model, cache, inputs, **many)
        assert cache.batch_size == beams * len(lengths) == len(store.rows)
    assert torch.equal(ours.sequences, expected.sequences)
    torch.testing.assert_close(ours.sequences_scores, expected.sequences_scores, rtol=1e-3, atol=1e-3)


def repeating() -> dict[str, torch.Tensor]:
    return {"input_ids": torch.tensor([[5, 6, 7, 8, 9] * 4])}


END = {"eos_token_id": 96}  # drafting needs an end token; this one does not come


@pytest.mark.parametrize("name", ["llama group 3 d 64", "qwen2 group 7"])
def test_prompt_lookup_decoding_crops_rejected_drafts(name: str) -> None:
    model, inputs, store = tiny_model(name), repeating(), FakeStore()
    expected = generate(model, stock(model), inputs, new_tokens=16, **END)
    with near(model, store) as cache:
        ours = generate(model, cache, inputs, new_tokens=16, prompt_lookup_num_tokens=3, **END)
    assert torch.equal(ours.sequences, expected.sequences)
    assert max(store.query_tokens) > 1


@pytest.mark.parametrize("own_config", [True, False])
def test_assisted_decoding(own_config: bool) -> None:
    """The assistant keeps its own cache, also where it is built on the very config object that is switched."""
    model, inputs, store = tiny_model("llama group 3 d 64"), prompt([9]), FakeStore()
    assistant = tiny_model("llama group 3 d 64") if own_config else type(model)(model.config).eval()
    assistant.load_state_dict(model.state_dict())
    with torch.no_grad():
        assistant.lm_head.weight.add_(0.02 * torch.randn(assistant.lm_head.weight.shape))
    for m in (model, assistant):
        m.generation_config.num_assistant_tokens = 4
        m.generation_config.num_assistant_tokens_schedule = "constant"
    expected = generate(model, stock(model), inputs, new_tokens=16, **END)
    with near(model, store) as cache:
        ours = generate(model, cache, inputs, new_tokens=16, assistant_model=assistant, **END)
    assert torch.equal(ours.sequences, expected.sequences)
    assert store.calls.count("attend") < 2 * 15  # drafts were accepted: fewer reads than tokens
    assert max(store.query_tokens) > 1


def test_several_samples_of_one_prompt() -> None:
    model, inputs = tiny_model("llama group 3 d 64"), prompt([7])
    results = []
    for cache in (stock(model), near(model)):
        torch.manual_seed(11)
        results.append(model.generate(**inputs, cache=cache, max_new_tokens=8, do_sample=True, num_return_sequences=3))
    assert torch.equal(*results)


def test_one_prefill_then_a_batch_of_copies_then_fewer() -> None:
    """A prompt is processed once, its row repeated, each copy continued with other tokens, and rows are dropped."""
    model, inputs = tiny_model("llama group 3 d 64"), prompt([9])
    results = []
    for cache in (stock(model), near(model)):
        with torch.no_grad():
            model(**inputs, cache=cache)
            cache.batch_repeat_interleave(3)
            logits = [model(torch.tensor([[5, 6], [7, 8], [9, 10]]), cache=cache).logits]
            cache.batch_select_indices(torch.tensor([2, 2, 0]))
            logits.append(model(torch.tensor([[11], [12], [13]]), cache=cache).logits)
            cache.batch_select_indices(torch.tensor([1]))
            logits.append(model(torch.tensor([[14]]), cache=cache).logits)
        results.append(logits)
    for theirs, ours in zip(*results, strict=True):
        assert torch.equal(theirs.argmax(-1), ours.argmax(-1))
        assert float((theirs - ours).abs().max()) < 2e-3 * float(theirs.std())


def test_a_text_streamer_gets_every_token() -> None:
    model, inputs = tiny_model("llama group 3 d 64"), prompt([7])
    texts: list[str] = []
    tokenizer = SimpleNamespace(decode=lambda ids, **_: " ".join(str(int(i)) for i in ids) + " ")
    streamer = TextStreamer(tokenizer, skip_prompt=True)
    streamer.on_finalized_text = lambda text, stream_end=False: texts.append(text)
    with near(model) as cache:
        ours = generate(model, cache, inputs, streamer=streamer)
    assert "".join(texts).split() == [str(i) for i in ours.sequences[0, 7:].tolist()]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_models(dtype: torch.dtype) -> None:
    """Stock computes attention in the model's own precision, ours in FP32: logits agree to that precision."""
    model, inputs = tiny_model("llama group 3 d 64", dtype=dtype), prompt([5, 12])
    with near(model) as cache, torch.no_grad():
        ours = model(**inputs, cache=cache).logits
        assert cache.inexact_elements == 0 or dtype == torch.bfloat16
        theirs = model(**inputs, cache=stock(model)).logits
    assert ours.dtype == dtype
    visible = inputs["attention_mask"].bool()
    error = (ours - theirs).float()[visible].abs().max() / theirs.float()[visible].std()
    assert error < 16 * torch.finfo(dtype).eps


def test_right_padding_gives_each_row_what_it_gets_alone() -> None:
    model = tiny_model("llama group 3 d 64")
    padded = prompt([3, 9], side="right")
    alone = {"input_ids": padded["input_ids"][:1, :3]}
    with near(model) as cache, near(model) as single, torch.no_grad():
        both = model(**padded, cache=cache)
        solo = model(**alone, cache=single)
        torch.testing.assert_close(both.logits[0, :3], solo.logits[0], rtol=0, atol=4e-3)
        step = torch.tensor([[40], [41]])
        mask = torch.cat([padded["attention_mask"], torch.ones((2, 1), dtype=torch.long)], 1)
        positions = mask.sum(1, keepdim=True) - 1
        both = model(step, attention_mask=mask, position_ids=positions, cache=cache)
        solo = model(step[:1], cache=single)
    torch.testing.assert_close(both.logits[0], solo.logits[0], rtol=0, atol=4e-3)


@pytest.mark.parametrize("with_cache", [True, False])
def test_without_a_handle_the_switched_config_still_computes_sdpa(with_cache: bool) -> None:
    """Another cache, or none, on a model whose config is switched: padding and windows count as before."""
    for name in ("llama group 3 d 64", "gemma3 windows in some layers"):
        model, inputs = tiny_model(name), prompt([4, 11])
        expected = generate(model, stock(model), inputs)
        with near(model), torch.no_grad():
            if with_cache:
                assert_same(generate(model, stock(model), inputs), expected)
            else:
                logits = model(expected.sequences[:, :11], attention_mask=inputs["attention_mask"], use_cache=False)
                torch.testing.assert_close(logits.logits[:, -1], expected.logits[0], rtol=1e-3, atol=2e-3)
