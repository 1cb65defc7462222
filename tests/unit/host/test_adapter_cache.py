# SPDX-License-Identifier: Apache-2.0
"""The cache object: life, operations on rows and columns, failures, what it refuses, and the switch of the config."""

from __future__ import annotations

import copy
import gc
import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from nearkv import NearStorageCache
from nearkv.adapters.transformers import UnsupportedFeature, ValueOutOfRange
from nearkv.errors import UserError
from transformers.cache_utils import Cache

from tests.support.attention import attend, config, reference, rows
from tests.support.fake_store import FakeStore
from tests.support.tiny_models import prompt, tiny_model


def chunk(rng: np.random.Generator, batch: int, n: int) -> list[Any]:
    return [np.stack([rows(rng, heads, n, 64) for _ in range(batch)]) for heads in (4, 2, 2)]


def test_importing_nearkv_loads_no_torch() -> None:
    code = "import sys, nearkv; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_config_is_switched_while_a_cache_is_open() -> None:
    shared = config(4, 2, 64)
    shared._attn_implementation = "sdpa"
    first, second = (NearStorageCache(shared, store=FakeStore()) for _ in range(2))
    assert shared._attn_implementation == "nearkv"
    first.close()
    first.close()
    assert shared._attn_implementation == "nearkv"
    assert "attn_implementation" not in shared.to_json_string(use_diff=False)
    second.close()
    assert shared._attn_implementation == "sdpa"


def test_a_cache_that_is_dropped_without_close_gives_the_config_back() -> None:
    shared, store = config(4, 2, 64), FakeStore()
    shared._attn_implementation = "eager"
    cache = NearStorageCache(shared, store=store)
    attend(cache, *chunk(np.random.default_rng(0), 2, 3))
    assert len(store.rows) == 2
    del cache
    gc.collect()
    assert shared._attn_implementation == "eager"
    assert not store.rows
    assert not store.closed


def test_a_copied_config_computes_sdpa() -> None:
    model = tiny_model("llama group 3 d 64")
    inputs = prompt([3, 6])
    with torch.no_grad():
        expected = model(**inputs).logits
        with NearStorageCache(model.config, store=FakeStore()):
            other = type(model)(copy.deepcopy(model.config)).eval()
            other.load_state_dict(model.state_dict())
            assert torch.equal(other(**inputs).logits, expected)


def test_reset_frees_everything_and_takes_another_batch_size() -> None:
    rng, store = np.random.default_rng(2), FakeStore()
    with NearStorageCache(config(4, 2, 64), store=store) as cache:
        attend(cache, *chunk(rng, 2, 5))
        cache.reset()
        assert (cache.get_seq_length(), cache.batch_size, store.rows) == (0, -1, {})
        attend(cache, *chunk(rng, 3, 4))
        assert (cache.get_seq_length(), cache.batch_size) == (4, 3)


# what 0 means changed with transformers: the length to keep, then the number of tokens to drop
ZERO_KEEPS = 6 if "tokens_to_remove" in inspect.signature(Cache.crop).parameters else 0


@pytest.mark.parametrize(("argument", "kept"), [(-2, 4), (4, 4), (0, ZERO_KEEPS), (9, 6), (-9, 0)])
def test_crop_drops_columns_of_every_row(argument: int, kept: int) -> None:
    rng = np.random.default_rng(3)
    mask = np.array([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]], bool)
    first, step = chunk(rng, 2, 6), chunk(rng, 2, 1)
    with NearStorageCache(config(4, 2, 64), store=FakeStore()) as cache:
        attend(cache, *first, mask)
        cache.crop(argument)
        assert cache.get_seq_length() == kept
        out = attend(cache, *step, np.concatenate([mask[:, :kept], np.ones((2, 1), bool)], 1))
    for b in range(2):
        held = [np.concatenate([x[b][:, :kept][:, mask[b, :kept]], y[b]], 1) for x, y in zip(first, step, strict=True)]
        np.testing.assert_allclose(out[b], reference(*held)[:, -1:], rtol=2e-3, atol=2e-3)


def test_rows_of_the_batch_can_be_dropped_and_reordered() -> None:
    rng, store = np.random.default_rng(4), FakeStore()
    first, step = chunk(rng, 4, 5), chunk(rng, 2, 1)
    with NearStorageCache(config(4, 2, 64), store=store) as cache:
        attend(cache, *first)
        cache.batch_select_indices(torch.tensor([3, -3]))
        assert (cache.batch_size, len(store.rows)) == (2, 2)
        out = attend(cache, *step)
        with pytest.raises(UserError, match="row 2 does not exist"):
            cache.batch_select_indices(torch.tensor([2]))
        cache.batch_select_indices(torch.tensor([False, True]))
        assert (cache.batch_size, len(store.rows)) == (1, 1)
    for b, old in enumerate([3, 1]):
        held = [np.concatenate([x[old], y[b]], 1) for x, y in zip(first, step, strict=True)]
        np.testing.assert_allclose(out[b], reference(*held)[:, -1:], rtol=2e-3, atol=2e-3)


def test_the_batch_grows_by_copies_that_go_their_own_ways() -> None:
    rng, store = np.random.default_rng(5), FakeStore()
    first, step = chunk(rng, 2, 5), chunk(rng, 6, 1)
    mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
    with NearStorageCache(config(4, 2, 64), store=store) as cache:
        cache.batch_repeat_interleave(2)
        cache.reorder_cache(torch.tensor([0]))
        attend(cache, *first, mask)
        cache.batch_repeat_interleave(2)
        assert (cache.batch_size, len(store.rows)) == (4, 4)
        rows_of = [3, 0, 1, 2, 0, 3]
        cache.batch_select_indices(torch.tensor(rows_of))
        mask = np.concatenate([np.repeat(mask, 2, 0)[rows_of], np.ones((6, 1), bool)], 1)
        out = attend(cache, *step, mask)
        with pytest.raises(UserError, match="repeats = 0"):
            cache.batch_repeat_interleave(0)
        cache.batch_repeat_interleave(1)
        assert (cache.batch_size, len(store.rows)) == (6, 6)
    for b, old in enumerate([row // 2 for row in rows_of]):
        held = [np.concatenate([x[old][:, mask[b, :5]], y[b]], 1) for x, y in zip(first, step, strict=True)]
        np.testing.assert_allclose(out[b], reference(*held)[:, -1:], rtol=2e-3, atol=2e-3)


def test_a_batch_that_the_store_has_no_room_for_takes_none() -> None:
    rng, store = np.random.default_rng(5), FakeStore()
    add, room = store.add_sequence, 2

    def add_or_fail(*, more: int = 0) -> int:
        if len(store.rows) == room:
            raise RuntimeError("no room")
        return add(more=more)

    store.add_sequence = add_or_fail  # type: ignore[method-assign]
    with NearStorageCache(config(4, 2, 64), store=store) as cache:
        with pytest.raises(RuntimeError, match="no room"):
            attend(cache, *chunk(rng, 3, 5))
        assert store.rows == {}
        attend(cache, *chunk(rng, 2, 5))


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("at", ["first chunk", "decode"])
def test_a_failed_forward_leaves_the_cache_as_before(layer: int, at: str) -> None:
    model, store, inputs = tiny_model("llama group 3 d 64"), FakeStore(), prompt([4, 7])
    step = torch.tensor([[5], [6]])
    mask = torch.cat([inputs["attention_mask"], torch.ones((2, 1), dtype=torch.long)], 1)
    with NearStorageCache(model.config, store=FakeStore()) as other, torch.no_grad():
        model(**inputs, cache=other)
        expected = model(step, attention_mask=mask, cache=other).logits
    with NearStorageCache(model.config, store=store) as cache, torch.no_grad():
        if at == "decode":
            model(**inputs, cache=cache)
        store.fail_at_layer = layer
        with pytest.raises(RuntimeError, match="planned failure"):
            model(step, attention_mask=mask, cache=cache) if at == "decode" else model(**inputs, cache=cache)
        assert cache.get_seq_length() == (7 if at == "decode" else 0)
        if at != "decode":
            assert not store.rows
            model(**inputs, cache=cache)
        assert torch.equal(model(step, attention_mask=mask, cache=cache).logits, expected)


def test_a_forward_that_ends_between_layers_is_undone_by_the_next_one() -> None:
    rng = np.random.default_rng(8)
    with NearStorageCache(config(4, 2, 64, layers=2), store=FakeStore()) as cache:
        first, lost, step = chunk(rng, 1, 5), chunk(rng, 1, 1), chunk(rng, 1, 1)
        for layer in (0, 1):
            attend(cache, *first, layer=layer)
        attend(cache, *lost, layer=0)
        attend(cache, *lost, layer=0)
        with pytest.raises(UserError, match="a forward ended early"):
            attend(cache, *lost, layer=1)
        assert cache.get_seq_length(0) == cache.get_seq_length(1) == 5
        held = [np.concatenate([x[0], y[0]], 1) for x, y in zip(first, step, strict=True)]
        for layer in (0, 1):
            out = attend(cache, *step, layer=layer)
            np.testing.assert_allclose(out[0], reference(*held)[:, -1:], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("value", [65536.0, -3e38, float("inf"), float("nan")])
@pytest.mark.parametrize("tensor", ["K", "V"])
def test_values_outside_fp16_are_refused(value: float, tensor: str) -> None:
    q, k, v = (torch.zeros(1, heads, 3, 64) for heads in (4, 2, 2))
    (k if tensor == "K" else v)[0, 1, 2, 9] = value
    with NearStorageCache(config(4, 2, 64, layers=3), store=FakeStore()) as cache:
        for layer in (0, 1):
            attend(cache, q, torch.zeros_like(k), torch.zeros_like(v), layer=layer)
        with pytest.raises(ValueOutOfRange, match=f"layer 2: {tensor} holds") as caught:
            attend(cache, q, k, v, layer=2)
        assert (caught.value.layer, caught.value.tensor) == (2, tensor)
        assert "head 1, token 2 of the chunk, element 9" in str(caught.value)
        assert cache.get_seq_length() == 0


def test_bf16_converts_exactly_or_is_counted() -> None:
    values = [188.0, 436.0, 0.1621, -0.0, 65280.0, 2.0**-17, 2.0**-24, 1e-38, 3 * 2.0**-26]
    v = torch.zeros(1, 1, len(values), 64, dtype=torch.bfloat16)
    v[0, 0, :, 0] = torch.tensor(values, dtype=torch.bfloat16)
    zeros = torch.zeros_like(v)
    store = FakeStore()
    with NearStorageCache(config(1, 1, 64), store=store) as cache:
        attend(cache, zeros.float(), zeros, v)
        assert cache.inexact_elements == 2
        held = torch.from_numpy(store.rows[1][0][1])[0, :, 0].to(torch.bfloat16)
        assert torch.equal(held[:7], v[0, 0, :7, 0])
        assert torch.signbit(held[3])


def test_k_or_v_of_another_shape_than_the_config_says_is_refused() -> None:
    with (
        NearStorageCache(config(4, 2, 64), store=FakeStore()) as cache,
        pytest.raises(UnsupportedFeature, match=r"V of \(heads, head size\) = \(2, 32\).*\(2, 64\)"),
    ):
        cache.update(torch.zeros(1, 2, 3, 64), torch.zeros(1, 2, 3, 32), 0)


def test_using_cached_rows_outside_the_attention_function_is_refused() -> None:
    with NearStorageCache(config(4, 2, 64), store=FakeStore()) as cache:
        keys, _ = cache.update(torch.zeros(1, 2, 3, 64), torch.zeros(1, 2, 3, 64), 0)
        assert (keys.shape, keys.dtype) == ((1, 2, 3, 64), torch.float32)
        with pytest.raises(UnsupportedFeature, match="rows stay on the cards"):
            keys.transpose(2, 3)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("softcap", 50.0),
        ("s_aux", torch.zeros(4)),
        ("position_bias", torch.zeros(1, 4, 3, 3)),
        ("indices", torch.zeros(3)),
        ("is_causal", False),
        ("output_attentions", True),
        ("sliding_window", 5),
        ("dropout", 0.1),
    ],
)
def test_arguments_that_the_kernel_does_not_know_are_refused(argument: str, value: Any) -> None:
    with NearStorageCache(config(4, 2, 64), store=FakeStore()) as cache:
        with pytest.raises(UnsupportedFeature, match=argument):
            attend(cache, *chunk(np.random.default_rng(0), 1, 3), **{argument: value})
        assert cache.get_seq_length() == 0


def test_masks_that_are_no_padding_are_refused() -> None:
    model = tiny_model("llama group 3 d 64")
    ids = torch.tensor([[3, 4, 5]])
    with NearStorageCache(model.config, store=FakeStore()) as cache, torch.no_grad():
        for mask in (torch.ones(1, 1, 3, 3, dtype=torch.bool), torch.zeros(1, 1, 3, 3)):
            with pytest.raises(UnsupportedFeature, match=r"attention mask of shape = \(1, 1, 3, 3\)"):
                model(ids, attention_mask=mask, cache=cache)


def test_cards_or_a_store_must_be_given_as_such() -> None:
    with pytest.raises(UserError, match="at least one card URL"):
        NearStorageCache(config(4, 2, 64))
    with pytest.raises(TypeError, match="list of URLs"):
        NearStorageCache(config(4, 2, 64), "sw_emu:0")
    assert config(4, 2, 64)._attn_implementation != "nearkv"
