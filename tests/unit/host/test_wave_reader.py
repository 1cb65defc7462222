# SPDX-License-Identifier: Apache-2.0
"""Waves arrive whole and in order, as many reads as asked for are in flight, and nobody waits for a dropped guess."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from nearkv.card_sequence import CardSequence
from nearkv.card_store import CardStore
from nearkv.fetches import Fetch, Wave
from nearkv.volume import Volume
from nearkv.volume_identity import VolumeIdentity
from nearkv.wave_reader import WaveReader
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import DriverError, StorageError
from nearkv_driver.pagestore import aligned_buffer
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.storage_faults import Fails, FaultySyscalls

from tests.support.stores import card_store, layout

SHAPE = layout(layers=2)


class Gate(SystemCalls):
    """Reads of data files wait until `parties` of them are under way, once that is set; then until `lifted`."""

    def __init__(self) -> None:
        self.together: threading.Barrier | None = None
        self.lifted = threading.Event()
        self.lifted.set()

    def preadv(self, fd: int, buffer: memoryview, offset: int) -> int:
        if self.together is not None:
            self.together.wait(30)
        assert self.lifted.wait(30)
        return super().preadv(fd, buffer, offset)


@pytest.fixture
def gate() -> Gate:
    return Gate()


def opened(folder: Path, calls: SystemCalls | FaultySyscalls, options: str = "") -> tuple[CardStore, CardSequence]:
    """A card with 24 extents of one sequence on flash, none in card memory."""
    device = NearDevice.open(f"sw_emu:0?dram=4M&kernel=model&resident=0&staging=256K{options}")
    volume = Volume(folder / "v", VolumeIdentity.of(SHAPE, 0, 1), SHAPE.slot_nbytes, syscalls=calls)
    card = card_store(device, volume, SHAPE)
    sequence = card.add((0, 1))
    card.reserve(sequence, 24 * 128)
    rows = np.random.default_rng(0).normal(size=(2, 2, 24 * 128, 64)).astype(np.float16)
    for layer in range(2):
        card.write(sequence, layer, 0, rows)
    return card, sequence


@pytest.fixture
def card(tmp_path: Path, gate: Gate) -> Iterator[tuple[CardStore, CardSequence]]:
    made = opened(tmp_path, gate)
    yield made
    gate.lifted.set()
    made[0].close()


def waves(sequence: CardSequence, layer: int = 0, first: int = 0, count: int = 4) -> list[Wave]:
    return [(Fetch(group, group.version, layer, 128, 2),) for group in sequence.groups[first : first + count]]


def pages(card: CardStore, wave: Wave) -> bytes:
    (fetch,) = wave
    view = aligned_buffer(2 * SHAPE.extent_nbytes)
    card.volume.read_into(fetch.group.place, fetch.layer * 2 * SHAPE.extent_nbytes, view)
    return bytes(view)


def test_waves_come_whole_and_in_order(card: tuple[CardStore, CardSequence]) -> None:
    store, sequence = card
    wanted = waves(sequence, count=9)
    store.reader.plan(wanted)
    for wave in wanted:
        staged = store.reader.take()
        assert staged.wave == wave
        got = store.ring.pages.view(2 * SHAPE.extent_nbytes, staged.slot.offset)
        assert bytes(got) == pages(store, wave)
        store.reader.give(staged)
    assert store.reader.counters.waves == 9


def test_whoever_records_a_read_may_look_at_the_counters(card: tuple[CardStore, CardSequence]) -> None:
    store, sequence = card
    seen = []
    reader = WaveReader(
        store.volume,
        store.ring,
        SHAPE,
        store.options,
        record=lambda *_: seen.append(reader.counters.waves),
    )
    reader.plan(waves(sequence, count=2))
    for _ in range(2):
        reader.give(reader.take())
    reader.close()
    assert len(seen) == 2


def test_sixteen_reads_are_in_flight(tmp_path: Path, gate: Gate) -> None:
    store, sequence = opened(tmp_path, gate, "&reads=16")
    # 4 buffers of one extent of two heads, in requests of 16 KiB.
    gate.together = threading.Barrier(16)
    store.reader.plan(waves(sequence))
    for _ in range(4):
        store.reader.give(store.reader.take())
    gate.together = None
    store.close()


def test_guesses_are_kept_when_right_and_dropped_when_wrong(card: tuple[CardStore, CardSequence], gate: Gate) -> None:
    store, sequence = card
    guessed, other = waves(sequence, 1), waves(sequence, 0, 10)
    store.reader.plan([], guessed)
    gate.lifted.clear()
    store.reader.plan([*guessed[:2], *other])
    assert store.reader.counters.dropped == 2
    gate.lifted.set()
    for wave in (*guessed[:2], *other):
        staged = store.reader.take()
        assert staged.wave == wave
        store.reader.give(staged)
    counters = store.reader.counters
    assert (counters.waves, counters.hits, counters.dropped) == (6, 2, 2)


def test_pages_that_were_written_again_are_read_again(card: tuple[CardStore, CardSequence]) -> None:
    store, sequence = card
    store.reader.plan([], waves(sequence))
    store.write(sequence, 0, 0, np.ones((2, 2, 128, 64), np.float16))
    wanted = waves(sequence, count=1)
    store.reader.plan(wanted)
    staged = store.reader.take()
    assert bytes(store.ring.pages.view(2 * SHAPE.extent_nbytes, staged.slot.offset)) == pages(store, wanted[0])
    assert store.reader.counters.hits == 0


def test_an_error_is_that_of_its_wave(tmp_path: Path) -> None:
    calls = FaultySyscalls(SystemCalls())
    store, sequence = opened(tmp_path, calls, "&reads=1")
    first = calls.calls["preadv"]
    calls.faults = [Fails("preadv", first=first + 2, last=first + 2)]
    store.reader.plan(waves(sequence))
    store.reader.give(store.reader.take())
    with pytest.raises(StorageError, match="EIO"):
        store.reader.take()
    store.reader.give(store.reader.take())
    store.reader.plan(waves(sequence))
    for _ in range(4):
        store.reader.give(store.reader.take())
    store.close()


def test_close_wakes_who_waits(card: tuple[CardStore, CardSequence], gate: Gate) -> None:
    store, sequence = card
    gate.lifted.clear()
    store.reader.plan(waves(sequence))
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            store.reader.take()
        except DriverError as error:
            raised.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    closer = threading.Thread(target=store.reader.close)
    closer.start()
    waiter.join(30)
    assert [str(error) for error in raised] == ["the card was closed"]
    gate.lifted.set()
    closer.join(30)
    assert not closer.is_alive()
