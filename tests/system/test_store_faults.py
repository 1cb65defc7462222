# SPDX-License-Identifier: Apache-2.0
"""A call that fails leaves the store as it was: lengths, rows and answers; and it can be made again."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from nearkv.card_store import CardStore
from nearkv.kvstore import KVStore
from nearkv.volume_errors import NotStored
from nearkv.volume_index import VolumeIndex
from nearkv_driver.errors import DirectIoUnavailable, DriverError, JobError, OutOfDeviceMemory, StorageError
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.storage_faults import Fails, FaultySyscalls

from tests.support.held_writer import WriterAtOnce
from tests.support.stores import Mirror, die, layout, urls


@pytest.fixture
def calls() -> FaultySyscalls:
    return FaultySyscalls(SystemCalls())


@pytest.fixture
def mirror(calls: FaultySyscalls, tmp_path: Path) -> Iterator[Mirror]:
    with KVStore.open(layout(), urls(2, tmp_path), syscalls=calls, writer=WriterAtOnce) as store:
        yield Mirror(store)
        calls.faults = []


def rest_of_state(mirror: Mirror) -> tuple[object, ...]:
    states = mirror.store._sequences.values()
    return tuple((list(s.tail.stored), list(s.tail.end)) for s in states)


def spoil_tail(mirror: Mirror, sequence: int, value: float) -> None:
    """Writes `value` into the last live tail row of layer 1 on every card, and only there."""
    state = mirror.store._sequences[sequence]
    tail = state.tail
    row = tail.row(1, tail.end[1] - 1)
    for part in state.parts:
        rows = part.rows(tail.at(1, row, 1)).copy()
        if np.isnan(value):
            rows[...] = value
        part.card.upload_tail(part.data, 1, row, rows)


def test_a_job_that_fails_keeps_no_new_row(mirror: Mirror) -> None:
    a, b = mirror.add(), mirror.add()
    mirror.append([a, b], 40)
    spoil_tail(mirror, b, np.nan)
    before = rest_of_state(mirror)
    q, k, v = mirror.draw(2, 3)
    with pytest.raises(JobError, match="nonfinite_kv") as caught:
        mirror.store.attend(1, [a, b], q, k, v, scale=0.125)
    assert any(f"layer 1, sequence {b}, KV head" in note for note in caught.value.__notes__)
    assert rest_of_state(mirror) == before
    spoil_tail(mirror, b, 0)
    mirror.step([a, b], 3)
    mirror.check_rows(b)


def test_a_full_disk_loses_no_token_and_the_call_works_later(mirror: Mirror, calls: FaultySyscalls) -> None:
    sequence = mirror.add("a")
    mirror.append([sequence], 127)
    mirror.step([sequence])
    mirror.step([sequence], 31)
    calls.faults = [Fails("allocate", errno.ENOSPC, first=1 + calls.calls["allocate"], last=None)]
    mirror.step([sequence])
    before = rest_of_state(mirror)
    q, k, v = mirror.draw(1, 1)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"data-000000\.pages: disk full: .* free"):
            mirror.store.attend(0, [sequence], q, k, v, scale=0.125)
        assert rest_of_state(mirror) == before
    mirror.query([sequence])
    mirror.check_rows(sequence)
    calls.faults = []
    mirror.step([sequence])
    mirror.store.flush()
    mirror.check_rows(sequence)


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
@pytest.mark.parametrize("call", ["pwritev", "preadv"])
def test_a_failed_transfer_in_an_append_stores_nothing(
    mirror: Mirror, calls: FaultySyscalls, call: str, nth: int
) -> None:
    sequences = [mirror.add("a"), mirror.add()]
    mirror.append(sequences, 40)
    before, buffered = rest_of_state(mirror), mirror.store.stats().write_buffer_nbytes
    done = calls.calls[call]
    calls.faults = [Fails(call, errno.EIO, first=done + nth, last=done + nth)]
    _, k, v = mirror.draw(2, 150)
    with pytest.raises(StorageError, match="EIO"):
        mirror.store.append(0, sequences, k, v)
    assert rest_of_state(mirror) == before
    assert mirror.store.stats().write_buffer_nbytes == buffered
    mirror.query(sequences)
    mirror.append(sequences, 150)
    mirror.step(sequences)
    for sequence in sequences:
        mirror.check_rows(sequence)


def test_a_selection_whose_flush_fails_changes_nothing(mirror: Mirror, calls: FaultySyscalls) -> None:
    first, named, last = mirror.add(), mirror.add("a"), mirror.add()
    mirror.append([first, named, last], 40)
    before, known = rest_of_state(mirror), list(mirror.store._sequences)
    calls.faults = [Fails("pwritev", first=1 + calls.calls["pwritev"], last=None)]
    with pytest.raises(NotStored, match="tokens 32 to 39 of sequence 'a'"):
        mirror.store.select([first, named, last], [2, 2])
    assert (rest_of_state(mirror), list(mirror.store._sequences)) == (before, known)
    calls.faults = []
    mirror.step([first, named, last])
    mirror.select([first, named, last], [2, 2])
    assert mirror.store.length(mirror.store.open_sequence("a")) == 41


def test_a_failed_sync_commits_nothing_and_is_not_forgotten(
    mirror: Mirror, calls: FaultySyscalls, tmp_path: Path
) -> None:
    sequence = mirror.add("a")
    mirror.append([sequence], 40)
    mirror.store.flush()
    calls.faults = [Fails("fdatasync", first=calls.calls["fdatasync"] + 1, last=calls.calls["fdatasync"] + 1)]
    _, k, v = mirror.draw(1, 60)
    mirror.store.append(0, [sequence], k, v)
    before = rest_of_state(mirror)
    with pytest.raises(StorageError, match="sync"):
        mirror.store.append(1, [sequence], k, v)
    assert rest_of_state(mirror) == before
    with pytest.raises(StorageError, match="not known to be stored"):
        mirror.store.append(1, [sequence], k, v)
    mirror.store.crop(sequence, 40)
    mirror.query([sequence])
    mirror.store.close()
    with KVStore.open(layout(), urls(2, tmp_path)) as store:
        mirror.store = store
        assert store.length(store.open_sequence("a")) == 40
        mirror.check_rows(0)


def test_an_index_that_fails_on_one_card_is_taken_back_on_the_other(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sequence = mirror.add("a")
    mirror.append([sequence], 40)
    mirror.store.flush()
    mirror.append([sequence], 30, layers=[0])
    before = rest_of_state(mirror)
    _, k, v = mirror.draw(1, 30)

    def full(*_: object) -> None:
        raise StorageError("database or disk is full", path="index.sqlite")

    index = mirror.store._cards[1].volume.index
    with monkeypatch.context() as patch:
        patch.setattr(index, "add_spill", full)
        with pytest.raises(StorageError, match="disk is full"):
            mirror.store.append(1, [sequence], k, v)
    assert rest_of_state(mirror) == before
    records = [card.volume.index.find("a") for card in mirror.store._cards]
    assert [(r.stored, r.tokens) for r in records if r] == [(32, 40), (32, 40)]
    mirror.append([sequence], 30, layers=[1])
    mirror.step([sequence])
    mirror.store.close()
    with KVStore.open(layout(), urls(2, tmp_path)) as store:
        mirror.store = store
        assert store.length(store.open_sequence("a")) == 71
        mirror.check_rows(0)


def test_a_failed_flush_leaves_what_an_earlier_one_saved(mirror: Mirror, calls: FaultySyscalls, tmp_path: Path) -> None:
    sequence = mirror.add("a")
    mirror.append([sequence], 7)
    mirror.store.flush()
    mirror.append([sequence], 7)
    calls.faults = [Fails("pwritev", first=calls.calls["pwritev"] + 2, last=None)]
    with pytest.raises(StorageError, match="EIO"):
        mirror.store.flush()
    mirror.query([sequence])
    die(mirror.store)
    with KVStore.open(layout(), urls(2, tmp_path)) as store:
        mirror.store = store
        assert store.length(store.open_sequence("a")) == 7
        mirror.moved(0, 0, 7)
        mirror.check_rows(0)


def test_a_sequence_that_cannot_be_flushed_does_not_cost_the_others(tmp_path: Path) -> None:
    calls = FaultySyscalls(SystemCalls())
    store = KVStore.open(layout(), urls(2, tmp_path), syscalls=calls)
    mirror = Mirror(store)
    first, second = mirror.add("first"), mirror.add("second")
    mirror.append([first, second], 40)
    calls.calls.clear()
    calls.faults = [Fails("pwritev")]
    with pytest.raises(StorageError, match="write of"):
        store.close()
    with KVStore.open(layout(), urls(2, tmp_path)) as again:
        lengths = [again.length(again.open_sequence(name)) for name in ("first", "second")]
    assert lengths == [32, 40]


def test_a_sequence_that_cannot_be_made_or_opened_holds_no_memory(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, error = mirror.store, StorageError("lost", path="x")
    mirror.append([mirror.add("a")], 40)
    one = store.stats()
    store.free(0)
    before = store.stats().write_buffer_nbytes

    def failing(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(VolumeIndex, "create", failing)
        patch.setattr(CardStore, "upload_tail", failing)  # the last step of opening, when the rows are in the buffer
        for _ in range(3):
            with pytest.raises(StorageError, match="lost"):
                store.add_sequence("b")
            with pytest.raises(StorageError, match="lost"):
                store.open_sequence("a")
            assert store.stats().write_buffer_nbytes == before
            assert [len(card.sequences) for card in store._cards] == [0, 0]
    store.open_sequence("a")
    assert store.stats().write_buffer_limit_nbytes == one.write_buffer_limit_nbytes


def test_a_failed_crop_keeps_the_sequence(mirror: Mirror, calls: FaultySyscalls) -> None:
    sequence = mirror.add("a")
    mirror.append([sequence], 140)
    before = rest_of_state(mirror)
    calls.faults = [Fails("preadv", first=calls.calls["preadv"] + 1, last=None)]
    with pytest.raises(StorageError, match="EIO"):
        mirror.store.crop(sequence, 70)
    assert rest_of_state(mirror) == before
    calls.faults = []
    mirror.query([sequence])
    mirror.crop(sequence, 70)
    mirror.query([sequence])


def test_a_crop_on_a_card_that_has_failed_keeps_the_sequence(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    sequence = mirror.add("a")
    mirror.append([sequence], 140)
    mirror.store.flush()
    before = rest_of_state(mirror)
    with monkeypatch.context() as patch:
        patch.setattr(mirror.store._cards[1].device, "_unusable", "the card has left the bus")
        with pytest.raises(DriverError, match=r"sw_emu:1.*left the bus"):
            mirror.store.crop(sequence, 70)
    assert rest_of_state(mirror) == before
    mirror.check_rows(sequence)
    mirror.query([sequence])
    mirror.crop(sequence, 70)
    mirror.query([sequence])


def test_a_crop_that_fails_on_the_second_card_costs_nothing_after_a_crash(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sequence = mirror.add("a")
    mirror.append([sequence], 140)
    mirror.store.flush()
    index = mirror.store._cards[1].volume.index

    def fails(*_: object) -> None:
        raise StorageError("the index cannot be used: disk full", path="card1")

    with monkeypatch.context() as patch:
        patch.setattr(index, "truncate", fails)
        with pytest.raises(StorageError, match="disk full"):
            mirror.store.crop(sequence, 70)
    die(mirror.store)
    with KVStore.open(layout(), urls(2, tmp_path)) as again:
        assert again.length(opened := again.open_sequence("a")) == 140
        assert again.info(opened).dropped_tokens == 0


def test_ctrl_c_between_two_cards_leaves_no_half_freed_sequence(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone, kept = mirror.add("a"), mirror.add()
    mirror.append([gone, kept], 140)
    last = mirror.store._cards[1]

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(last, "remove", interrupted)
        with pytest.raises(KeyboardInterrupt):
            mirror.store.free(gone)
    with pytest.raises(KeyError, match=f"sequence {gone} does not exist or was freed"):
        mirror.store.free(gone)
    mirror.append([kept], 200)
    mirror.step([kept])
    mirror.check_rows(kept)
    mirror.store.close()
    with KVStore.open(layout(), urls(2, tmp_path)) as again:
        assert again.length(again.open_sequence("a")) == 140


@pytest.mark.parametrize("at", [1, 2])
def test_ctrl_c_behind_an_index_transaction_leaves_no_name(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    create, calls = VolumeIndex.create, 0

    def interrupted(index: VolumeIndex, name: str, heads: Sequence[int], used_ns: int = 0) -> int:
        nonlocal calls
        calls += 1
        number = create(index, name, heads, used_ns)
        if calls == at:
            raise KeyboardInterrupt
        return number

    with monkeypatch.context() as patch:
        patch.setattr(VolumeIndex, "create", interrupted)
        with pytest.raises(KeyboardInterrupt):
            mirror.store.add_sequence("a")
    assert mirror.store.names() == ()
    sequence = mirror.add("a")
    mirror.append([sequence], 40)
    mirror.check_rows(sequence)


def test_a_card_full_of_tails_says_what_it_needs_and_keeps_what_it_has() -> None:
    shape = layout(layers=4)
    with KVStore.open(shape, ["sw_emu:0?dram=3M"]) as store:
        mirror = Mirror(store)
        a = mirror.add()
        mirror.append([a], 2000)
        mirror.query([a])
        free = store._cards[0].volume.free_nbytes
        with pytest.raises(OutOfDeviceMemory, match=r"tail of a new sequence needs \d+ bytes in one piece, .*dram="):
            _repeat(store.add_sequence)
        assert store.length(a) == store.length(a, 0) == 2000
        assert store._cards[0].volume.free_nbytes == free
        mirror.check_rows(a)
        for sequence in list(store._sequences)[1:]:
            store.free(sequence)
        mirror.append([a], 50)
        mirror.step([a])


def test_a_card_without_room_for_a_list_lets_extents_go() -> None:
    with KVStore.open(layout(), ["sw_emu:0?dram=2M"]) as store:
        mirror = Mirror(store)
        sequences = [mirror.add() for _ in range(2)]
        mirror.append(sequences, 600)
        mirror.step(sequences)
        card = store._cards[0]
        before = card.residency.used_nbytes
        taken = []
        with pytest.raises(OutOfDeviceMemory):
            _repeat(lambda: taken.append(card.device.alloc(4096)))
        mirror.step(sequences, 32)
        mirror.step(sequences, 32)
        assert card.residency.used_nbytes < before


def test_a_file_system_that_refuses_direct_io_is_refused_with_the_way_out(
    tmp_path: Path, calls: FaultySyscalls
) -> None:
    calls.faults = [Fails("pwritev", errno.EINVAL, last=None)]
    with pytest.raises(DirectIoUnavailable, match="io=buffered"):
        KVStore.open(layout(), urls(1, tmp_path), syscalls=calls)
    assert not list(tmp_path.iterdir())
    KVStore.open(layout(), urls(1, tmp_path, options="&io=buffered")).close()


def test_direct_io_refused_later_goes_on_buffered_and_shows(mirror: Mirror, calls: FaultySyscalls) -> None:
    sequence = mirror.add()
    done = calls.calls["pwritev"]
    calls.faults = [Fails("pwritev", errno.EINVAL, first=done + 1, last=done + 1)]
    mirror.append([sequence], 64)
    mirror.query([sequence])
    assert {card.io for card in mirror.store.stats().cards} == {"direct", "buffered"}


def _repeat(call: Callable[[], object]) -> None:
    for _ in range(2000):
        call()
