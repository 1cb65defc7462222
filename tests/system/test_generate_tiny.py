# SPDX-License-Identifier: Apache-2.0
"""Tiny models of every head size on two emulated cards: the adapter's tests with the real store under it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from nearkv import NearStorageCache

from tests.support.attention import attend, config, reference, rows
from tests.support.tiny_models import CONFIGS, RoundedCache, assert_same, generate, prompt, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

CARDS = ["sw_emu:0", "sw_emu:1"]


def near(model: Any) -> NearStorageCache:
    return NearStorageCache(model.config, CARDS)


def stock(model: Any) -> RoundedCache:
    return RoundedCache(config=model.config)


@pytest.mark.parametrize("name", CONFIGS)
def test_left_padded_batch_equals_stock(name: str) -> None:
    """Long enough that units go to flash and the window leaves its first tokens behind."""
    model, inputs = tiny_model(name), prompt([4, 75, 130])
    expected = generate(model, stock(model), inputs)
    with near(model) as cache:
        assert_same(generate(model, cache, inputs), expected)
        stats = cache.stats()
    assert stats.read_back_nbytes == 0
    assert sum(card.media_write_nbytes for card in stats.cards) > 0
    payload = sum(card.link_down_payload + card.link_up_payload for card in stats.cards)
    assert payload == stats.formula_link_nbytes


@pytest.mark.parametrize("chunk", [10, 60])
def test_chunked_prefill(chunk: int) -> None:
    model, inputs = tiny_model("llama group 3 d 64"), prompt([150, 70])
    expected = generate(model, stock(model), inputs)
    with near(model) as cache:
        assert_same(generate(model, cache, inputs, prefill_chunk_size=chunk), expected)
        assert (cache.stats().read_back_nbytes > 0) == (chunk == 60)


def test_turns_crops_and_fewer_rows() -> None:
    model, inputs = tiny_model("mistral window 7"), prompt([40, 90])
    theirs = RoundedCache()  # without the config it keeps what left the window, so that it can be cropped
    with near(model) as ours, torch.no_grad():
        for cache in (ours, theirs):
            model(**inputs, cache=cache)
        ours.crop(-33)
        theirs.crop(-33)
        mask = inputs["attention_mask"][:, :-33]
        for cache in (ours, theirs):
            cache.batch_select_indices(torch.tensor([1]))
        results = []
        for cache in (ours, theirs):
            ids, seen, logits = torch.tensor([[5]]), mask[1:], []
            for _ in range(12):
                seen = torch.cat([seen, torch.ones((1, 1), dtype=torch.long)], 1)
                logits.append(model(ids, attention_mask=seen, cache=cache).logits[:, -1])
                ids = logits[-1].argmax(-1, keepdim=True)
            results.append(torch.stack(logits))
        assert torch.equal(results[0].argmax(-1), results[1].argmax(-1))
        assert float((results[0] - results[1]).abs().max()) < 2e-3 * float(results[1].std())


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("reverse", [False, True])
def test_ragged_batch_with_poisoned_padding(side: str, reverse: bool) -> None:
    """Lengths 1, 17 and 4096: each row as if alone, whatever the padding holds, and right against float64."""
    rng = np.random.default_rng(1)
    lengths = [1, 17, 4096][:: -1 if reverse else 1]
    longest, heads = max(lengths), (9, 3, 3)
    chunks = [np.full((3, h, longest, 64), np.nan if h == 9 else 1e4, np.float32) for h in heads]
    mask = np.zeros((3, longest), bool)
    for b, n in enumerate(lengths):
        at = slice(longest - n, longest) if side == "left" else slice(0, n)
        mask[b, at] = True
        for chunk, h in zip(chunks, heads, strict=True):
            chunk[b, :, at] = rows(rng, h, n, 64)
    with NearStorageCache(config(9, 3, 64), CARDS) as cache, NearStorageCache(config(9, 3, 64), CARDS) as solo:
        out = attend(cache, *chunks, mask)
        past = [[chunk[b][:, mask[b]] for chunk in chunks] for b in range(3)]
        long = lengths.index(4096)
        attend(solo, *(x[None] for x in past[long]))
        assert not out.transpose(0, 2, 1, 3)[~mask].any()
        for _ in range(8):
            mask = np.concatenate([mask, np.ones((3, 1), bool)], 1)
            step = [np.stack([rows(rng, h, 1, 64) for _ in range(3)]) for h in heads]
            out = attend(cache, *step, mask)
            alone = attend(solo, *(x[long : long + 1] for x in step))
            assert np.array_equal(out[long], alone[0])
            for b in range(3):
                past[b] = [np.concatenate([old, new[b]], 1) for old, new in zip(past[b], step, strict=True)]
                q, k, v = step[0][b], past[b][1], past[b][2]
                np.testing.assert_allclose(out[b], reference(q, k, v), rtol=2e-3, atol=2e-3)
