# SPDX-License-Identifier: Apache-2.0
"""A store whose KV does not fit into card memory gives the same bits as one where it does."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from nearkv.kvstore import KVStore
from nearkv.layout import ModelLayout
from nearkv.timeline import HOST, KERNEL, LINK, READ, Timeline
from nearkv_driver.errors import JobError, StorageError
from nearkv_driver.pagestore import aligned_buffer
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.storage_faults import Fails, FaultySyscalls
from numpy.typing import NDArray

from tests.support.stores import Mirror, layout

RESIDENT = "sw_emu:{}?dram=64M"
# Two staging buffers of one extent each: every extent is a wave of its own.
EVERY_WAVE = "sw_emu:{}?dram=4M&staging=128K&resident=0"


class Twins:
    """Two stores that get the same calls; every output is compared bit for bit."""

    def __init__(self, resident: KVStore, streamed: KVStore, seed: int = 0) -> None:
        self.resident, self.streamed = resident, streamed
        self.layout = resident.layout
        self.random = np.random.default_rng(seed)

    def add(self, count: int) -> list[int]:
        added = [self.resident.add_sequence() for _ in range(count)]
        assert [self.streamed.add_sequence() for _ in range(count)] == added
        return added

    def draw(self, batch: int, n: int) -> tuple[NDArray[np.float32], NDArray[np.float16], NDArray[np.float16]]:
        shape, d = self.layout, self.layout.head_size
        q = self.random.normal(size=(batch, shape.query_heads, n, d)).astype(np.float32)
        k, v = (self.random.normal(size=(batch, shape.kv_heads, n, d)).astype(np.float16) for _ in range(2))
        return q, k, v

    def append(self, sequences: Sequence[int], n: int) -> None:
        for layer in range(self.layout.layers):
            _, k, v = self.draw(len(sequences), n)
            for store in (self.resident, self.streamed):
                store.append(layer, sequences, k, v)

    def step(self, sequences: Sequence[int], n: int = 1, window: int = 0) -> None:
        for layer in range(self.layout.layers):
            q, k, v = self.draw(len(sequences), n)
            want, got = (
                store.attend(layer, sequences, q, k, v, scale=0.125, window=window)
                for store in (self.resident, self.streamed)
            )
            for a, b in zip(want, got, strict=True):
                np.testing.assert_array_equal(a, b)

    def crop(self, sequence: int, length: int) -> None:
        for store in (self.resident, self.streamed):
            store.crop(sequence, length)


@contextmanager
def twins(
    streamed: str, cards: int = 1, shape: ModelLayout | None = None, calls: FaultySyscalls | None = None
) -> Iterator[Twins]:
    shape = shape or layout()
    with (
        KVStore.open(shape, [RESIDENT.format("r")]) as a,
        KVStore.open(shape, [streamed.format(i) for i in range(cards)], syscalls=calls) as b,
    ):
        yield Twins(a, b)


def streamed_nbytes(store: KVStore) -> int:
    return sum(card.reader.counters.nbytes for card in store._cards)


@pytest.mark.parametrize("head_size", [64, 80, 256])
@pytest.mark.parametrize("kernel", ["hls", "model"])
def test_every_extent_a_wave(head_size: int, kernel: str) -> None:
    shape = layout(head_size=head_size)
    staging = 2 * shape.kv_heads * shape.extent_nbytes
    with twins(f"sw_emu:{{}}?dram=8M&resident=0&kernel={kernel}&staging={staging}", shape=shape) as both:
        batch = both.add(2)
        both.append(batch, 300)
        both.step(batch)
        both.append(batch[:1], 90)
        both.step(batch, 3)
        assert streamed_nbytes(both.streamed) > 0
        assert both.resident.stats().cards[0].kernel_beats == both.streamed.stats().cards[0].kernel_beats


@pytest.mark.parametrize("cards", [1, 2])
@pytest.mark.parametrize(
    "options",
    [
        "dram=4M&staging=128K&resident=0",
        "dram=4M&staging=512K&resident=256K",
        "dram=1536K",
        "dram=4M&resident=0.1&reads=1",
        "dram=4M&resident=0&prefetch=off",
        "dram=4M&resident=0&p2p=bounce",
        "dram=4M&resident=0&io=buffered&reads=64",
    ],
)
def test_long_decode_with_units_spilled_in_between(options: str, cards: int) -> None:
    with twins(f"sw_emu:{{}}?{options}", cards) as both:
        a, b, c = batch = both.add(3)
        both.append([a, c], 500)
        for i in range(12):
            both.step(batch if i % 5 else [b, c], 6)
        both.crop(a, 100)
        both.crop(c, 395)
        for _ in range(6):
            both.step(batch, 7)
        both.append([a], 400)
        both.step(batch, 2)
        assert streamed_nbytes(both.streamed) > 0 or "resident" not in options


def test_a_window_reads_no_extent_that_lies_before_it() -> None:
    with twins(EVERY_WAVE) as both:
        (sequence,) = both.add(1)
        both.append([sequence], 1000)
        store = both.streamed
        for window, extents in ((0, 8), (1, 0), (8, 0), (100, 1), (112, 2), (300, 3)):
            store._cards[0].reader.forget()
            store._calls.forecast.forget()
            before = store._cards[0].reader.counters.waves
            both.step([sequence], window=window)
            assert store._cards[0].reader.counters.waves - before == extents * both.layout.layers
        both.step([sequence], 3, window=104)


def test_the_next_layer_is_read_before_it_is_asked_for() -> None:
    with twins("sw_emu:{}?dram=4M&staging=256K&resident=0") as both:
        batch = both.add(2)
        both.append(batch, 128 * 3)
        for _ in range(3):
            both.step(batch)
        counters = both.streamed._cards[0].reader.counters
        # 6 extents a layer, 4 staging buffers: the first 4 waves of every call but the first were on their way.
        assert counters.waves == 6 * 6
        assert counters.hits == 5 * 4
        assert counters.dropped == 0


def test_turns_of_two_batches_are_learned() -> None:
    with twins("sw_emu:{}?dram=4M&staging=256K&resident=0") as both:
        a, b = both.add(2)
        both.append([a, b], 128)
        store = both.streamed
        q, _, _ = both.draw(1, 1)
        for _ in range(3):
            for layer in range(both.layout.layers):
                for sequence in (a, b):
                    store.attend(layer, [sequence], q, scale=0.125)
        counters = store._cards[0].reader.counters
        assert counters.waves == 12
        assert counters.hits >= 7
        assert counters.dropped <= 4


def test_prefetch_off_reads_nothing_ahead() -> None:
    with twins("sw_emu:{}?dram=4M&resident=0&prefetch=off") as both:
        batch = both.add(2)
        both.append(batch, 400)
        both.step(batch)
        both.step(batch)
        counters = both.streamed._cards[0].reader.counters
        assert counters.waves > 0
        assert (counters.hits, counters.dropped) == (0, 0)


@pytest.mark.parametrize("options", ["", "&p2p=bounce"])
def test_a_bad_streamed_page_is_named(options: str) -> None:
    with twins(EVERY_WAVE + options) as both:
        batch = both.add(2)
        both.append(batch, 300)
        card = both.streamed._cards[0]
        data = card.sequences[1]
        card.volume.write(data.groups[1].place, data.map.offset(1, 1, value=True, token=64), bytes(4096))
        q, k, v = both.draw(2, 1)
        both.streamed.attend(0, batch, q, k, v, scale=0.125)
        with pytest.raises(JobError, match=r"crc_mismatch: page 2 of V in segment") as caught:
            both.streamed.attend(1, batch, q, k, v, scale=0.125)
        notes = "\n".join(caught.value.__notes__)
        assert f"layer 1, sequence {batch[1]}, KV head 1" in notes
        assert "extent 1, streamed, from " in notes
        assert "data-000000.pages" in notes
        assert both.streamed.length(batch[0], 1) == 300
        both.streamed.attend(1, batch[:1], q[:1], k[:1], v[:1], scale=0.125)


@pytest.mark.parametrize("nth", [1, 2, 5])
def test_a_failed_read_fails_its_call_and_no_other(nth: int) -> None:
    calls = FaultySyscalls(SystemCalls())
    with twins(EVERY_WAVE + "&reads=1&prefetch=off", calls=calls) as both:
        batch = both.add(2)
        both.append(batch, 300)
        both.step(batch)
        q, k, v = both.draw(2, 1)
        before = [both.streamed.length(s, layer) for s in batch for layer in (0, 1)]
        first = calls.calls["preadv"] + nth
        calls.faults = [Fails("preadv", errno.EIO, first=first, last=first)]
        with pytest.raises(StorageError, match=r"data-000000\.pages: read of .* EIO") as caught:
            both.streamed.attend(0, batch, q, k, v, scale=0.125)
        assert any("on card sw_emu:0" in note for note in caught.value.__notes__)
        assert [both.streamed.length(s, layer) for s in batch for layer in (0, 1)] == before
        calls.faults = []
        both.step(batch)


def test_a_guess_that_cannot_be_read_does_no_harm() -> None:
    calls = FaultySyscalls(SystemCalls())
    with twins(EVERY_WAVE, calls=calls) as both:
        batch = both.add(1)
        both.append(batch, 300)
        both.step(batch)
        calls.faults = [Fails("preadv", errno.EIO, last=None)]
        q, k, v = both.draw(1, 1)
        with pytest.raises(StorageError, match="EIO"):
            both.streamed.attend(0, batch, q, k, v, scale=0.125)
        calls.faults = []
        both.step(batch)


def test_the_reads_of_a_card_end_with_the_store(tmp_path: Path) -> None:
    with twins(EVERY_WAVE) as both:
        batch = both.add(2)
        both.append(batch, 600)
        both.step(batch)
        threads = both.streamed._cards[0].reader._threads._threads
        assert threads
        running = [thread for thread, _ in threads]
    assert not any(thread.is_alive() for thread in running)


def test_a_named_sequence_is_found_again_and_streamed(tmp_path: Path) -> None:
    url = f"{EVERY_WAVE.format(0)}&ssd={tmp_path}/v"
    shape = layout()
    random = np.random.default_rng(1)
    k, v = (random.normal(size=(1, 2, 300, 64)).astype(np.float16) for _ in range(2))
    q = random.normal(size=(1, 4, 1, 64)).astype(np.float32)
    outs = []
    with KVStore.open(shape, [url]) as store:
        sequence = store.add_sequence("a")
        for layer in range(2):
            store.append(layer, [sequence], k, v)
        outs.append(store.attend(1, [sequence], q, scale=0.125)[0])
    with KVStore.open(shape, [url]) as store:
        outs.append(store.attend(1, [store.open_sequence("a")], q, scale=0.125)[0])
        assert streamed_nbytes(store) > 0
    np.testing.assert_array_equal(outs[0], outs[1])


@pytest.mark.parametrize(
    ("cards", "options"), [(3, ""), (5, ""), (3, "&resident=0&staging=128K"), (4, "&resident=128K&p2p=bounce")]
)
def test_a_sequence_split_by_tokens_over_cards(cards: int, options: str) -> None:
    with twins(f"sw_emu:{{}}?dram=4M{options}", cards) as both:
        batch = both.add(1)
        both.step(batch)
        both.append(batch, 127)
        both.step(batch, 5)
        both.append(batch, 520)
        for _ in range(12):
            both.step(batch, 7, window=0)
        both.step(batch, 3, window=400)
        stats = both.streamed.stats()
        assert sum(card.kv_nbytes for card in stats.cards) == both.resident.stats().cards[0].kv_nbytes
        assert all(card.kv_nbytes for card in stats.cards)
        for length in (600, 300, 129):
            both.crop(batch[0], length)
            both.step(batch, 4)
        for a, b in zip(*(store.read(1, batch[0]) for store in (both.resident, both.streamed)), strict=True):
            np.testing.assert_array_equal(a, b)
        later = both.add(2)
        both.append(later, 200)
        both.step(batch + later)
        for store in (both.resident, both.streamed):
            store.free(batch[0])
        both.step(later)


def test_cards_of_different_size_share_the_work() -> None:
    urls = ["sw_emu:0?dram=64M", "sw_emu:1?dram=2M", "sw_emu:2?dram=1M&staging=128K"]
    with KVStore.open(layout(), [RESIDENT.format("r")]) as a, KVStore.open(layout(), urls) as b:
        both = Twins(a, b)
        batch = both.add(3)
        both.append(batch, 700)
        both.step(batch, 2)
        cards = b.stats().cards
        assert all(card.kv_nbytes for card in cards)
        assert cards[0].streamed_nbytes == 0 < cards[2].streamed_nbytes


def test_an_error_of_one_card_names_it_and_stops_the_step() -> None:
    with twins("sw_emu:{}?dram=4M&resident=0&prefetch=off", 2) as both:
        batch = both.add(2)
        both.append(batch, 600)
        both.step(batch)
        card = both.streamed._cards[1]
        data = card.sequences[0]
        good = aligned_buffer(4096)
        card.volume.read_into(data.groups[0].place, 0, good)
        card.volume.write(data.groups[0].place, 0, bytes(4096))
        q, k, v = both.draw(2, 1)
        before = [both.streamed.length(s, 0) for s in batch]
        for _ in range(2):
            with pytest.raises(JobError, match=r"sw_emu:1.*crc_mismatch"):
                both.streamed.attend(0, batch, q, k, v, scale=0.125)
        assert [both.streamed.length(s, 0) for s in batch] == before
        card.volume.write(data.groups[0].place, 0, good)
        both.step(batch)


@pytest.mark.parametrize("options", ["", "&p2p=bounce"])
def test_a_timeline_has_what_host_link_drive_and_kernel_did(options: str) -> None:
    timeline = Timeline()
    with KVStore.open(layout(), [EVERY_WAVE.format(i) + options for i in range(2)], timeline=timeline) as store:
        mirror = Mirror(store)
        batch = [mirror.add(), mirror.add()]
        mirror.append(batch, 300)
        mirror.step(batch)
        mirror.step(batch)
        stats = store.stats().cards
    kinds = {(i.card, i.what) for i in timeline.intervals}
    assert kinds == {(-1, HOST), *((card, what) for card in (0, 1) for what in (KERNEL, LINK, READ))}
    assert all(i.begin_s <= i.end_s for i in timeline.intervals)
    for card in (0, 1):
        kernels = [i for i in timeline.intervals if i.card == card and i.what == KERNEL]
        assert len(kernels) == stats[card].lists + 1  # and the identity
        reads = [i for i in timeline.intervals if i.card == card and i.what == READ]
        assert len(reads) >= stats[card].waves
        for lane in {i.lane for i in reads}:
            ordered = sorted((i.begin_s, i.end_s) for i in reads if i.lane == lane)
            assert all(a[1] <= b[0] for a, b in pairwise(ordered))


@pytest.mark.parametrize(
    ("layers", "dram"), [(2, "4M"), pytest.param(30, "32M", marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
def test_8k_tokens_of_four_sequences_on_two_small_cards(layers: int, dram: str) -> None:
    shape = ModelLayout("SmolLM2-135M", layers=layers, query_heads=9, kv_heads=3, head_size=64)
    with (
        KVStore.open(shape, ["sw_emu:r"]) as a,
        KVStore.open(shape, [f"sw_emu:{i}?dram={dram}" for i in range(2)]) as b,
    ):
        both = Twins(a, b)
        batch = both.add(4)
        for _ in range(8):
            both.append(batch, 1020)
        for _ in range(2):
            both.step(batch)
        both.step(batch, 21)
        cards = b.stats().cards
        for card in cards:
            assert card.streamed_nbytes > 2 * (card.kv_nbytes - card.resident_nbytes)
            assert card.dram_nbytes < card.kv_nbytes
            assert card.media_read_nbytes >= card.streamed_nbytes
        assert sum(card.link_down_payload + card.link_up_payload for card in cards) == b.stats().formula_link_nbytes
