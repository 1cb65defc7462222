# SPDX-License-Identifier: Apache-2.0
"""Attention through the store on emulated cards equals exact attention, whatever the batch, the masks and the split."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from numpy.typing import NDArray

from tests.support.stores import Mirror, layout, urls

SCALE = 0.125


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with KVStore.open(layout(), urls(2)) as store:
        yield Mirror(store)


def constant(store: KVStore, value: float, n: int = 1) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """Keys of zero and values that are all `value`, for one sequence."""
    shape = (1, store.layout.kv_heads, n, store.layout.head_size)
    return np.zeros(shape, np.float16), np.full(shape, value, np.float16)


def counting(store: KVStore, first: int, n: int) -> NDArray[np.float16]:
    """V[j] = j for positions from `first` on."""
    shape = (1, store.layout.kv_heads, n, store.layout.head_size)
    return np.broadcast_to(np.arange(first, first + n)[None, None, :, None], shape).astype(np.float16)


def test_the_hls_kernel_gives_the_same_bits_as_the_model() -> None:
    outputs = []
    for kernel in ("hls", "model"):
        with KVStore.open(layout(), urls(2, kernel=kernel)) as store:
            mirror = Mirror(store)
            a, b = mirror.add(), mirror.add()
            mirror.append([a, b], 70)
            mirror.step([b, a], 3)
            outputs.append(mirror.query([a, b], 2))
    for hls, model in zip(*outputs, strict=True):
        np.testing.assert_array_equal(hls, model)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_ragged_padded_batch_is_the_sequences_alone(mirror: Mirror, order: tuple[int, ...], side: str) -> None:
    lengths = (1, 17, 4096)
    sequences = [mirror.add() for _ in lengths]
    longest = max(lengths)
    for layer in range(2):
        _, k, v = mirror.draw(3, longest)
        valid = np.array([[i >= longest - n if side == "left" else i < n for i in range(longest)] for n in lengths])
        pad = np.broadcast_to(~valid[:, None, :, None], k.shape)
        k[pad], v[pad] = np.nan, 1e4
        mirror.store.append(layer, sequences, k, v, valid)
        mirror._keep(layer, sequences, k, v, valid)
    batch = [sequences[i] for i in order]
    for _ in range(8):
        mirror.step(batch)
    assert [mirror.store.length(s) for s in sequences] == [n + 8 for n in lengths]


def test_a_sequence_in_a_batch_has_the_bits_that_it_has_alone() -> None:
    outputs = []
    for company in (0, 3):
        with KVStore.open(layout(), urls(2)) as store:
            mirror = Mirror(store)
            others = Mirror(store, seed=9)
            extra = [others.add() for _ in range(company)]
            sequence = mirror.add()
            mirror.append([sequence], 77)
            others.append(extra, 50) if extra else None
            q, k, v = mirror.draw(1, 1)
            more = others.draw(company, 1)
            joined = (np.concatenate([a, b]) for a, b in zip(more, (q, k, v), strict=True))
            out, lse = store.attend(0, [*extra, sequence], *joined, scale=SCALE)
            outputs.append((out[-1], lse[-1]))
    for alone, together in zip(*outputs, strict=True):
        np.testing.assert_array_equal(alone, together)


def test_empty_sequences_give_zeros_and_minus_infinity(mirror: Mirror) -> None:
    sequences = [mirror.add() for _ in range(3)]
    mirror.append([sequences[0]], 5)
    mirror.append([sequences[2]], 7)
    mirror.query(sequences)
    q, _, _ = mirror.draw(2, 1)
    empty = [mirror.add(), mirror.add()]
    lists = mirror.store.stats().cards[0].lists
    out, lse = mirror.store.attend(0, empty, q, scale=SCALE)
    assert not out.any()
    assert np.isneginf(lse).all()
    assert mirror.store.stats().cards[0].lists == lists
    mirror.step([sequences[1], empty[0]])


def test_an_empty_batch_starts_no_kernel(mirror: Mirror) -> None:
    before = mirror.store.stats()
    q, k, v = mirror.draw(0, 1)
    out, lse = mirror.store.attend(0, [], q, k, v, scale=SCALE)
    mirror.store.append(0, [], k, v)
    assert out.shape == (0, 4, 1, 64)
    assert lse.shape == (0, 4, 1)
    assert mirror.store.stats() == before


@pytest.mark.parametrize("head_size", [64, 80, 96, 112, 128, 256])
def test_every_head_size_over_unit_borders(head_size: int) -> None:
    shape = layout(layers=1, head_size=head_size)
    with KVStore.open(shape, urls(1)) as store:
        mirror = Mirror(store, seed=4)
        sequences = [mirror.add() for _ in range(5)]
        for sequence, length in zip(sequences, (1, 15, 16, 17, 100), strict=True):
            mirror.append([sequence], length)
        for n in (1, 1, 20):
            mirror.step(sequences, n)
        for sequence in sequences:
            mirror.check_rows(sequence)


def test_padding_lanes_in_card_memory_change_nothing() -> None:
    shape = layout(layers=1, head_size=80)
    with KVStore.open(shape, urls(1)) as store:
        mirror = Mirror(store)
        sequence = mirror.add()
        mirror.append([sequence], 30)
        tail = store._sequences[sequence].tail
        tail.rows[..., 80:] = np.nan
        store._sequences[sequence].upload_tail(0, 0, 30)
        mirror.query([sequence])


def test_masked_rows_and_holes(mirror: Mirror) -> None:
    valid = np.ones((4, 12), bool)
    valid[0] = False
    valid[1, :11] = False
    valid[2, 3:6] = False
    sequences = [mirror.add() for _ in range(4)]
    mirror.step(sequences, 12, valid=valid)
    assert [mirror.store.length(s) for s in sequences] == [0, 1, 9, 12]
    mirror.query(sequences)
    mirror.step(sequences, 3, valid=np.array([[0, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 1]], bool))


@pytest.mark.parametrize("between", [0, 15, 200])
@pytest.mark.parametrize("kernel", ["hls", "model"])
def test_scores_beyond_the_fp16_range(kernel: str, between: int) -> None:
    """Raw products of 115200; the two keys in one page, in neighbouring pages and in extents far apart."""
    shape = layout(layers=1, query_heads=1, kv_heads=1, head_size=128)
    with KVStore.open(shape, urls(1, kernel=kernel)) as store:
        sequence = store.add_sequence()
        k = np.full((1, 1, between + 2, 128), -30, np.float16)
        v = np.full(k.shape, -7, np.float16)
        k[:, :, 0], v[:, :, 0] = 30, 1.5
        store.append(0, [sequence], k, v)
        q = np.full((1, 1, 1, 128), 30, np.float32)
        out, lse = store.attend(0, [sequence], q, scale=128**-0.5)
        assert (out == 1.5).all()
        # The scale constant has 24 bits: 2^-24 of the score.
        assert abs(lse[0, 0, 0] - 115200 / 128**0.5) < 1e-3
        assert store.stats().cards[0].saturated_jobs == 0


@pytest.mark.parametrize("cached", [7, 30, 126])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_new_tokens_are_aligned_to_the_end(mirror: Mirror, cached: int, one_by_one: bool) -> None:
    store = mirror.store
    sequence = store.add_sequence()
    zeros = np.zeros((1, 4, 3, 64), np.float32)
    store.append(0, [sequence], constant(store, 0, cached)[0], counting(store, 0, cached))
    got = []
    for first, n in [(cached + i, 1) for i in range(3)] if one_by_one else [(cached, 3)]:
        k, v = constant(store, 0, n)[0], counting(store, first, n)
        got.append(store.attend(0, [sequence], zeros[:, :, :n], k, v, scale=SCALE)[0])
    means = [(cached + i) / 2 for i in range(3)]
    np.testing.assert_allclose(np.concatenate(got, 2)[0, 0, :, 0], means, rtol=1e-6)


def test_sliding_window_edges(mirror: Mirror) -> None:
    store = mirror.store
    q = np.zeros((1, 4, 1, 64), np.float32)
    sequence = store.add_sequence()
    store.append(0, [sequence], constant(store, 0, 9)[0], counting(store, 0, 9))
    k, v = constant(store, 0)[0], counting(store, 9, 1)
    assert store.attend(0, [sequence], q, k, v, scale=SCALE, window=4)[0][0, 0, 0, 0] == 7.5
    assert store.length(sequence, 0) == 10

    prefilled = store.add_sequence()
    k, v = constant(store, 0, 10)[0], counting(store, 0, 10)
    out, _ = store.attend(0, [prefilled], np.repeat(q, 10, 2), k, v, scale=SCALE, window=4)
    np.testing.assert_allclose(out[0, 0, :, 0], [(max(0, i - 3) + i) / 2 for i in range(10)], rtol=1e-6)

    short = store.add_sequence()
    for i in range(6):
        k, v = constant(store, 0)[0], counting(store, i, 1)
        out, _ = store.attend(0, [short], q, k, v, scale=SCALE, window=4)
        np.testing.assert_allclose(out[0, 0, 0, 0], (max(0, i - 3) + i) / 2, rtol=1e-6)


def test_extents_outside_the_window_are_not_read(mirror: Mirror) -> None:
    sequence = mirror.add()
    mirror.append([sequence], 600)
    mirror.step([sequence], 2, window=150)
    beats = mirror.store.stats().cards[0].kernel_beats
    mirror.step([sequence], 1, window=40)
    read = mirror.store.stats().cards[0].kernel_beats - beats
    pairs, layers, rows_per_beat = 1, 2, 2
    assert read == pairs * layers * 2 * (602 - 512) * rows_per_beat


@pytest.mark.parametrize("cards", [2, 3])
def test_the_number_of_cards_changes_no_bit(cards: int) -> None:
    outputs = []
    for count in (1, cards):
        with KVStore.open(layout(kv_heads=3, query_heads=6), urls(count)) as store:
            mirror = Mirror(store, seed=5)
            sequences = [mirror.add() for _ in range(2)]
            mirror.append(sequences, 150)
            for n in (1, 4, 1):
                mirror.step(sequences, n)
            outputs.append(mirror.query(sequences, 2))
            assert sum(card.pairs for card in store.stats().cards) == 6
    for one, many in zip(*outputs, strict=True):
        np.testing.assert_array_equal(one, many)


def test_every_length_has_the_same_bits_in_the_tail_and_on_flash() -> None:
    shape = layout(layers=1, query_heads=1, kv_heads=1)
    with KVStore.open(shape, urls(1)) as store:
        mirror = Mirror(store)
        grown = mirror.add()
        for length in range(1, 131):
            mirror.step([grown])
            k, v = mirror.rows[grown, 0]
            whole = store.add_sequence()
            store.append(0, [whole], k[None], v[None])
            q, _, _ = mirror.draw(1, 1)
            a, b = (store.attend(0, [s], q, scale=SCALE) for s in (grown, whole))
            np.testing.assert_array_equal(a[0], b[0], err_msg=f"{length} tokens")
            np.testing.assert_array_equal(a[1], b[1])
            store.free(whole)


def test_freed_places_are_used_again_and_company_does_not_show(mirror: Mirror) -> None:
    store = mirror.store
    q = np.zeros((4, 4, 1, 64), np.float32)
    values = {store.add_sequence(): float(i + 1) for i in range(4)}

    def step(batch: list[int]) -> None:
        for layer in range(2):
            k, v = (np.concatenate(x) for x in zip(*(constant(store, values[s]) for s in batch), strict=True))
            out, _ = store.attend(layer, batch, q, k, v, scale=SCALE)
            assert (out[:, :, 0] == np.array([values[s] for s in batch])[:, None, None]).all()

    first = list(values)
    for _ in range(40):
        step(first)
    used = store.stats().cards[0].resident_nbytes
    for gone in (first[1], first[3]):
        store.free(gone)
        with pytest.raises(KeyError, match=f"sequence {gone} "):
            step([first[0], gone, first[2], first[2]])
    new = [store.add_sequence(), store.add_sequence()]
    values |= {new[0]: 5.0, new[1]: 6.0}
    for _ in range(40):
        step([new[1], first[2], new[0], first[0]])
    assert store.stats().cards[0].resident_nbytes == used


def test_arguments_that_cannot_be_are_refused_before_anything_is_stored(mirror: Mirror) -> None:
    store, sequence = mirror.store, mirror.add()
    q, k, v = mirror.draw(1, 2)

    def refused(error: type[Exception], text: str, layer: int = 0, **changes: object) -> None:
        call = {"q": q, "k": k, "v": v, "scale": SCALE, **changes}
        with pytest.raises(error, match=text):
            store.attend(layer, [sequence], **call)  # type: ignore[arg-type]
        assert store.length(sequence, 0) == 0

    refused(UserError, "layer = 2", layer=2)
    refused(UserError, "scale = 0", scale=0)
    refused(UserError, "scale = nan", scale=float("nan"))
    refused(UserError, "scale = 1e\\+300", scale=1e300)
    refused(TypeError, "k is list", k=[1.0])
    refused(UserError, "window = -1", window=-1)
    refused(TypeError, "k is float32", k=k.astype(np.float32))
    refused(TypeError, "q is float64", q=q.astype(np.float64))
    refused(TypeError, "valid is int64", valid=np.ones((1, 2), np.int64))
    refused(UserError, "k has shape", k=k[:, :1])
    refused(UserError, "k has 1 tokens, v has 2", k=k[:, :, :1])
    refused(UserError, "q has 2 tokens, k and v have 1", k=k[:, :, :1], v=v[:, :, :1])
    refused(UserError, "together", v=None)
    refused(UserError, "at most 32", q=np.zeros((1, 4, 33, 64), np.float32), k=None, v=None)
    bad = v.copy()
    bad[0, 1, 1, 7] = np.inf
    refused(UserError, f"layer 1, sequence {sequence}, KV head 1, new token 1: V holds inf", layer=1, v=bad)
    with pytest.raises(UserError, match="twice"):
        store.append(0, [sequence, sequence], np.repeat(k, 2, 0), np.repeat(v, 2, 0))
    with pytest.raises(KeyError, match="sequence 99"):
        store.append(0, [99], k, v)


@pytest.mark.parametrize(("layer", "window"), [(1.0, 0), (0.5, 0), (0, 1.5)])
def test_numbers_that_are_not_whole_are_refused_and_not_remembered(mirror: Mirror, layer: float, window: float) -> None:
    """What followed a call is expected to follow it again; an impossible call would spoil every later one."""
    sequence = mirror.add()
    mirror.step([sequence])
    q, _, _ = mirror.draw(1, 1)
    with pytest.raises(TypeError, match="a whole number is expected"):
        mirror.store.attend(layer, [sequence], q, scale=SCALE, window=window)  # type: ignore[arg-type]
    mirror.step([sequence])
    mirror.step([sequence])


def test_link_bytes_are_the_formula_and_overhead_is_apart(mirror: Mirror) -> None:
    sequences = [mirror.add(), mirror.add()]
    mirror.append(sequences, 100)
    before = mirror.store.stats()
    mirror.step(sequences, 1)
    mirror.step(sequences, 5)
    after = mirror.store.stats()
    payload = sum(card.link_down_payload + card.link_up_payload for card in after.cards)
    payload -= sum(card.link_down_payload + card.link_up_payload for card in before.cards)
    hq, hkv, d, layers = 4, 2, 64, 2
    per_token = hq * d * 4 + 2 * hkv * d * 2 + hq * (d * 4 + 8)
    assert payload == after.formula_link_nbytes == per_token * 6 * len(sequences) * layers
    assert after.host_offload_nbytes == 2 * hkv * d * 2 * (101 + 106) * len(sequences) * layers
    assert all(card.link_overhead > 0 for card in after.cards)


def test_the_write_buffer_is_bounded_and_empty_again(mirror: Mirror) -> None:
    sequence = mirror.add()
    mirror.append([sequence], 2000)
    stats = mirror.store.stats()
    unit, token_nbytes = mirror.layout.unit_tokens, mirror.layout.kv_bytes_per_token
    assert stats.write_buffer_nbytes == 2000 % unit * token_nbytes
    assert stats.write_buffer_peak_nbytes < unit * token_nbytes
    mirror.store.free(sequence)
    assert mirror.store.stats().write_buffer_nbytes == 0
    assert mirror.store.stats().cards[0].resident_nbytes == 0


@pytest.mark.parametrize("options", ["&p2p=bounce", "&io=buffered", "&p2p=bounce&io=buffered"])
def test_bounce_and_buffered_paths_give_the_same_and_say_so(options: str) -> None:
    with KVStore.open(layout(), urls(2, options=options)) as store:
        mirror = Mirror(store)
        sequence = mirror.add()
        mirror.append([sequence], 200)
        mirror.step([sequence], 2)
        mirror.check_rows(sequence)
        card = store.stats().cards[0]
        assert card.path == ("bounce" if "bounce" in options else "p2p")
        assert card.io == ("buffered" if "buffered" in options else "direct")


@pytest.mark.parametrize("n", [1, 5, 13, 32])
def test_long_decode_moves_rows_around_the_slot(mirror: Mirror, n: int) -> None:
    sequence = mirror.add()
    for _ in range(0, 260, n):
        mirror.step([sequence], n)
    mirror.check_rows(sequence)


def test_layers_may_run_ahead(mirror: Mirror) -> None:
    sequence = mirror.add()
    mirror.append([sequence], 100, layers=[0])
    for _ in range(9):
        q, k, v = mirror.draw(1, 16)
        mirror.store.attend(0, [sequence], q, k, v, scale=SCALE)
        mirror._keep(0, [sequence], k, v)
    assert (mirror.store.length(sequence), mirror.store.length(sequence, 0)) == (0, 244)
    mirror.append([sequence], 244, layers=[1])
    mirror.check_rows(sequence)
    mirror.step([sequence])


def test_ctrl_c_in_a_call_leaves_the_store_as_it_was(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    sequence = mirror.add()
    mirror.append([sequence], 100)
    transport = mirror.store._cards[0].device._transport

    def interrupted(seconds: float) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(transport, "pause", interrupted)
    q, k, v = mirror.draw(1, 1)
    with pytest.raises(KeyboardInterrupt):
        mirror.store.attend(0, [sequence], q, k, v, scale=SCALE)
    assert mirror.store.length(sequence) == 100
    mirror.query([sequence])
    mirror.step([sequence])
