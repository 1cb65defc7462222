# SPDX-License-Identifier: Apache-2.0
"""What becomes durable, in which order, and that no page of the index is written again."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from nearkv import card_index
from nearkv.card_sequence import CardSequence
from nearkv.card_store import CardStore
from nearkv.volume import Volume
from nearkv.volume_identity import VolumeIdentity
from nearkv.volume_records import SequenceRecord
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import StorageError
from nearkv_driver.syscalls import SystemCalls

from tests.support.stores import card_store, layout


class Recorder(SystemCalls):
    """Notes writes and syncs of data files; index commits are noted by the test."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    def pwritev(self, fd: int, buffer: memoryview, offset: int) -> int:
        self.events.append(("write", offset))
        return super().pwritev(fd, buffer, offset)

    def fdatasync(self, fd: int) -> None:
        self.events.append(("sync", 0))
        super().fdatasync(fd)


@pytest.fixture
def calls() -> Recorder:
    return Recorder()


@pytest.fixture
def card(tmp_path: Path, calls: Recorder, monkeypatch: pytest.MonkeyPatch) -> CardStore:
    shape = layout(head_size=128)
    volume = Volume(tmp_path / "v", VolumeIdentity.of(shape, 0, 1), shape.slot_nbytes, syscalls=calls)
    for name in ("add_spill", "set_tail", "truncate"):
        inner = getattr(volume.index, name)

        def noted(*args: object, inner: object = inner, name: str = name) -> None:
            calls.events.append((name, 0))
            inner(*args)  # type: ignore[operator]

        monkeypatch.setattr(volume.index, name, noted)
    return card_store(NearDevice.open("sw_emu:0?dram=16M&kernel=model"), volume, shape)


def named(card: CardStore) -> CardSequence:
    sequence = card.add((0, 1))
    sequence.record = card.volume.index.create("a", sequence.heads)
    return sequence


def store_units(card: CardStore, sequence: CardSequence, first: int, units: int) -> None:
    tokens = units * card.layout.unit_tokens
    card.reserve(sequence, first + tokens)
    random = np.random.default_rng(first)
    for layer in range(card.layout.layers):
        card.write(sequence, layer, first, random.normal(size=(2, 2, tokens, 128)).astype(np.float16))


def partial(card: CardStore, tokens: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
    return np.random.default_rng(tokens).normal(size=(card.layout.layers, 2, 2, tokens, 128)).astype(np.float16)


def test_data_then_sync_then_index(card: CardStore, calls: Recorder) -> None:
    sequence = named(card)
    store_units(card, sequence, 0, 3)
    calls.events.clear()
    card_index.commit(card, sequence, 48)
    card_index.write_tail(card, sequence, 48, partial(card, 5))
    kinds = [kind for kind, _ in calls.events]
    assert kinds == ["sync", "add_spill", "write", "sync", "set_tail"]


def test_each_partial_unit_goes_to_a_fresh_place(card: CardStore, calls: Recorder) -> None:
    sequence = named(card)
    places = []
    for tokens in (3, 7, 9, 15):
        calls.events.clear()
        card_index.write_tail(card, sequence, 0, partial(card, tokens))
        places.append(next(offset for kind, offset in calls.events if kind == "write"))
        np.testing.assert_array_equal(card_index.read_tail(card, sequence), partial(card, tokens))
    assert all(a != b for a, b in pairwise(places))
    used = card.volume.used_nbytes
    assert used == 2 * card.layout.slot_nbytes


def test_no_indexed_page_is_written_again_after_a_cut(card: CardStore, calls: Recorder) -> None:
    sequence = named(card)
    store_units(card, sequence, 0, 8)
    card_index.commit(card, sequence, 128)
    calls.events.clear()
    card_index.truncate(card, sequence, 37, partial(card, 5))
    written = [offset for kind, offset in calls.events if kind == "write"]
    group = sequence.groups[0].place.slot * card.layout.slot_nbytes
    assert not any(group <= offset < group + sequence.map.nbytes for offset in written)
    assert [kind for kind, _ in calls.events] == ["write", "sync", "truncate"]
    record = card.volume.index.load(sequence.record or 0)
    assert (record.stored, record.tokens, sequence.committed) == (32, 37, 32)


def test_checksums_of_units_round_trip(card: CardStore) -> None:
    sequence = named(card)
    store_units(card, sequence, 0, 12)
    crcs = card_index.unit_crcs(card.layout, sequence, 32, 192)
    before = [group.crcs.copy() for group in sequence.groups]
    for group in sequence.groups:
        group.crcs[:, :, :] = 0
    card_index.set_unit_crcs(card.layout, sequence, 0, card_index.unit_crcs(card.layout, sequence, 0, 32))
    card_index.set_unit_crcs(card.layout, sequence, 32, crcs)
    np.testing.assert_array_equal(sequence.groups[1].crcs, before[1])
    assert not sequence.groups[0].crcs[:, :, :2].any()
    with pytest.raises(ValueError, match="reshape"):
        card_index.set_unit_crcs(card.layout, sequence, 0, crcs[:-4])


def test_commits_taken_back_restore_the_partial_unit(card: CardStore) -> None:
    sequence = named(card)
    card_index.write_tail(card, sequence, 0, partial(card, 9))
    tail = sequence.tail
    store_units(card, sequence, 0, 1)
    card_index.commit(card, sequence, 16)
    assert card.volume.index.load(sequence.record or 0).tokens == 16
    card_index.restore(card, sequence, 0, tail)
    record = card.volume.index.load(sequence.record or 0)
    assert (record.stored, record.tokens, record.tail) == (0, 9, tail)
    np.testing.assert_array_equal(card_index.read_tail(card, sequence), partial(card, 9))


def test_a_cut_that_cannot_be_taken_back_keeps_the_place_that_the_index_names(
    card: CardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequence = named(card)
    store_units(card, sequence, 0, 2)
    card_index.commit(card, sequence, 32)
    back = card_index.memento(card, sequence)
    card_index.truncate(card, sequence, 20, partial(card, 4))
    used = card.volume.used_nbytes

    def failing(record: SequenceRecord) -> None:
        raise StorageError("the index cannot be written", path="index.sqlite")

    with monkeypatch.context() as patched:
        patched.setattr(card.volume.index, "put", failing)
        with pytest.raises(StorageError):
            back()
    assert card.volume.index.load(sequence.record or 0).tail == sequence.tail is not None
    assert card.volume.used_nbytes == used
    back()
    assert card.volume.index.load(sequence.record or 0).tokens == 32
    assert card.volume.used_nbytes == used - 2 * card.layout.slot_nbytes


def test_a_sequence_without_a_name_touches_no_index(card: CardStore, calls: Recorder) -> None:
    sequence = card.add((0, 1))
    store_units(card, sequence, 0, 1)
    calls.events.clear()
    card_index.commit(card, sequence, 16)
    card_index.write_tail(card, sequence, 16, partial(card, 3))
    card_index.truncate(card, sequence, 3, partial(card, 3))
    assert calls.events == []


def test_the_process_id_in_the_lock(card: CardStore) -> None:
    assert (card.volume.folder / "lock").read_text() == f"{os.getpid()}\n"
