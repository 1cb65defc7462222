# SPDX-License-Identifier: Apache-2.0
"""Padding, holes and windows through the adapter's attention, against full float64 attention of the visible tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from nearkv import NearStorageCache
from nearkv.adapters.transformers import ContextTooLong, UnsupportedFeature
from nearkv.adapters.transformers.mask import near_mask
from nearkv.errors import UserError

from tests.support.attention import attend, config, reference, rows
from tests.support.fake_store import FakeStore


def open_cache(heads: int, kv_heads: int, head_size: int, **more: Any) -> NearStorageCache:
    return NearStorageCache(config(heads, kv_heads, head_size, **more), store=FakeStore())


@pytest.mark.parametrize("fill", [1e4, np.nan])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("reverse", [False, True])
def test_ragged_batch_equals_each_row_alone(fill: float, side: str, reverse: bool) -> None:
    rng = np.random.default_rng(1)
    lengths = [1, 17, 300][:: -1 if reverse else 1]
    longest, shape = max(lengths), ((9, 64), (3, 64), (3, 64))
    chunks = [np.full((3, heads, longest, d), fill, np.float32) for heads, d in shape]
    mask = np.zeros((3, longest), bool)
    for b, n in enumerate(lengths):
        at = slice(longest - n, longest) if side == "left" else slice(0, n)
        mask[b, at] = True
        for chunk, (heads, d) in zip(chunks, shape, strict=True):
            chunk[b, :, at] = rows(rng, heads, n, d)
    solo = [open_cache(9, 3, 64) for _ in lengths]
    with open_cache(9, 3, 64) as cache:
        out = attend(cache, *chunks, mask)
        past = [[chunk[b][:, mask[b]] for chunk in chunks] for b in range(3)]
        for b in range(3):
            alone = attend(solo[b], *(x[None] for x in past[b]))[0]
            np.testing.assert_allclose(out[b][:, mask[b]], alone, rtol=0, atol=1e-5)
            np.testing.assert_allclose(alone, reference(*past[b]), rtol=2e-3, atol=2e-3)
            assert not out[b][:, ~mask[b]].any()
        for _ in range(8):
            mask = np.concatenate([mask, np.ones((3, 1), bool)], 1)
            step = [np.stack([rows(rng, heads, 1, d) for _ in range(3)]) for heads, d in shape]
            out = attend(cache, *step, mask)
            for b in range(3):
                past[b] = [np.concatenate([old, new[b]], 1) for old, new in zip(past[b], step, strict=True)]
                alone = attend(solo[b], *(x[b : b + 1] for x in step))[0]
                np.testing.assert_allclose(out[b], alone, rtol=0, atol=1e-5)
                np.testing.assert_allclose(out[b], reference(*past[b])[:, -1:], rtol=2e-3, atol=2e-3)


def test_fully_masked_row_and_holes() -> None:
    rng = np.random.default_rng(7)
    q, k, v = (np.stack([rows(rng, heads, 12, 64) for _ in range(4)]) for heads in (4, 2, 2))
    mask = np.ones((4, 12), bool)
    mask[0], mask[1, :11], mask[2, 3:6] = False, False, False
    with open_cache(4, 2, 64) as cache:
        out = attend(cache, q, k, v, mask)
        assert not out[0].any()
        np.testing.assert_allclose(out[1][:, 11], np.repeat(v[1][:, 11], 2, 0), rtol=1e-6)
        seen = mask[2]
        expected = reference(q[2][:, seen], k[2][:, seen], v[2][:, seen])
        np.testing.assert_allclose(out[2][:, seen], expected, rtol=2e-3, atol=2e-3)
        np.testing.assert_allclose(out[3], reference(q[3], k[3], v[3]), rtol=2e-3, atol=2e-3)
        # a token for all: the row that was empty sees only itself
        mask = np.concatenate([mask, np.ones((4, 1), bool)], 1)
        new = [np.stack([rows(rng, heads, 1, 64) for _ in range(4)]) for heads in (4, 2, 2)]
        out = attend(cache, *new, mask)
        np.testing.assert_allclose(out[0][:, 0], np.repeat(new[2][0][:, 0], 2, 0), rtol=1e-6)


@pytest.mark.parametrize("cut", [[3], [1, 2], [1, 1, 1]])
def test_several_new_tokens_are_aligned_to_the_end(cut: list[int]) -> None:
    v = np.broadcast_to(np.arange(10, dtype=np.float32)[:, None], (1, 1, 10, 64))
    zeros = np.zeros((1, 1, 10, 64), np.float32)
    with open_cache(1, 1, 64) as cache:
        attend(cache, zeros[:, :, :7], zeros[:, :, :7], v[:, :, :7])
        got, at = [], 7
        for n in cut:
            part = slice(at, at + n)
            got += list(attend(cache, zeros[:, :, part], zeros[:, :, part], v[:, :, part])[0, 0, :, 0])
            at += n
    np.testing.assert_allclose(got, [3.5, 4.0, 4.5], rtol=1e-6)


@pytest.mark.parametrize("first", [10, 9, 3, 4, 5])
def test_window_edges(first: int) -> None:
    v = np.broadcast_to(np.arange(10, dtype=np.float32)[:, None], (1, 1, 10, 64))
    zeros = np.zeros((1, 1, 10, 64), np.float32)
    with open_cache(1, 1, 64) as cache:
        got, at = [], 0
        for n in [first] + [1] * (10 - first):
            part = slice(at, at + n)
            got += list(attend(cache, zeros[:, :, part], zeros[:, :, part], v[:, :, part], window=4)[0, 0, :, 0])
            at += n
        assert cache.get_seq_length() == 10
    np.testing.assert_allclose(got, [np.mean(range(max(0, i - 3), i + 1)) for i in range(10)], rtol=1e-6)


@pytest.mark.parametrize("n", [40, 90])
def test_large_later_chunks_read_back_with_window_and_padding(n: int) -> None:
    rng = np.random.default_rng(5)
    mask = np.ones((2, 50 + n), bool)
    mask[0, :20] = False
    chunk = [np.stack([rows(rng, heads, 50 + n, 64) for _ in range(2)]) for heads in (4, 2, 2)]
    for window in (None, 33):
        with open_cache(4, 2, 64) as cache:
            attend(cache, *(x[:, :, :50] for x in chunk), mask[:, :50], window=window)
            out = attend(cache, *(x[:, :, 50:] for x in chunk), mask, window=window)
        for b in range(2):
            q, k, v = (x[b][:, mask[b]] for x in chunk)
            expected = reference(q[:, -n:], k, v, window=window or 0)
            np.testing.assert_allclose(out[b], expected, rtol=2e-3, atol=2e-3)


def test_an_operation_on_the_mask_builds_it() -> None:
    """Models that touch their mask, or pass it to an attention of their own, get what sdpa would get."""
    padding = torch.tensor([[False, True, True], [True, True, True]])
    mask = near_mask(batch_size=2, q_length=3, kv_length=3, attention_mask=padding, local_size=None)
    assert mask.shape == (2, 1, 3, 3)
    causal = torch.ones(3, 3, dtype=torch.bool).tril()
    assert torch.equal(mask & True, causal & padding[:, None, None])


def _chunk(n: int, rows_: int = 2) -> list[Any]:
    return [torch.zeros(rows_, 1, n, 64) for _ in range(3)]


def test_a_mask_that_changes_for_stored_tokens_is_refused() -> None:
    with open_cache(1, 1, 64) as cache:
        mask = np.array([[0, 1, 1], [1, 1, 1]], bool)
        attend(cache, *_chunk(3), mask)
        changed = np.array([[0, 1, 1, 1], [0, 1, 1, 1]], bool)
        with pytest.raises(UserError, match=r"attention_mask\[1, 0\] = 0, but that token was visible"):
            attend(cache, *_chunk(1), changed)
        with pytest.raises(UserError, match=r"attention_mask\[0, 0\] = 1, but that token was masked"):
            attend(cache, *_chunk(1))
        assert cache.get_seq_length() == 3
        attend(cache, *_chunk(1), np.array([[0, 1, 1, 1], [1, 1, 1, 1]], bool))


@pytest.mark.parametrize("width", [3, 5])
def test_a_mask_of_another_length_is_refused(width: int) -> None:
    with open_cache(1, 1, 64) as cache:
        attend(cache, *_chunk(3))
        with pytest.raises(UserError, match=rf"shape \(2, {width}\).*\(2, 4\)"):
            attend(cache, *_chunk(1), np.ones((2, width), bool))


def test_another_batch_size_is_refused() -> None:
    with open_cache(1, 1, 64) as cache:
        attend(cache, *_chunk(3))
        with pytest.raises(UserError, match="batch has 3 rows, the cache holds 2"):
            attend(cache, *_chunk(1, 3))


def test_holes_are_refused_with_a_window() -> None:
    with open_cache(1, 1, 64) as cache:
        with pytest.raises(UnsupportedFeature, match=r"row 1.*sliding window"):
            attend(cache, *_chunk(4), np.array([[0, 0, 1, 1], [1, 0, 1, 1]], bool), window=2)
        attend(cache, *_chunk(4), np.array([[0, 0, 1, 1], [1, 1, 1, 0]], bool), window=2)
        with pytest.raises(UnsupportedFeature, match="row 1"):
            attend(cache, *_chunk(1), np.array([[0, 0, 1, 1, 1], [1, 1, 1, 0, 1]], bool), window=2)


def test_context_limit_counts_visible_tokens() -> None:
    with open_cache(1, 1, 64, positions=4) as cache:
        attend(cache, *_chunk(5), np.array([[0, 1, 1, 1, 1], [0, 0, 1, 1, 1]], bool))
        with pytest.raises(ContextTooLong, match=r"5 tokens.*max_position_embeddings is 4") as caught:
            attend(cache, *_chunk(1), np.array([[0, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]], bool))
        assert (caught.value.tokens, caught.value.limit) == (5, 4)
        assert cache.get_seq_length() == 5


def test_empty_batch() -> None:
    with open_cache(4, 2, 64) as cache:
        for n in (3, 1):
            out = attend(cache, *(torch.zeros(0, heads, n, 64) for heads in (4, 2, 2)))
            assert out.shape == (0, 4, n, 64)
