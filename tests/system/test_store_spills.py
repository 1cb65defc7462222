# SPDX-License-Identifier: Apache-2.0
"""Spills behind the decode steps: the answers do not depend on when they end, and no failure loses a token."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nearkv import spiller
from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv.spill_part import PartSpill
from nearkv.volume_errors import NotStored
from nearkv.writer import Task, Work
from nearkv_driver.errors import DriverError, StorageError
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.storage_faults import Fails, FaultySyscalls

from tests.support.held_writer import HeldWriters
from tests.support.stores import Mirror, die, layout, urls

UNIT = layout().unit_tokens
TOKEN_NBYTES = layout().kv_bytes_per_token


@pytest.fixture
def writers() -> HeldWriters:
    return HeldWriters()


@pytest.fixture
def calls() -> FaultySyscalls:
    return FaultySyscalls(SystemCalls())


@pytest.fixture
def mirror(writers: HeldWriters, calls: FaultySyscalls, tmp_path: Path) -> Iterator[Mirror]:
    with KVStore.open(layout(), urls(2, tmp_path), syscalls=calls, writer=writers) as store:
        yield Mirror(store)
        calls.faults = []


def decode(mirror: Mirror, sequences: list[int], steps: int) -> None:
    for _ in range(steps):
        mirror.step(sequences)


def stored(mirror: Mirror, sequence: int) -> list[int]:
    return list(mirror.store._sequences[sequence].tail.stored)


def outputs(mirror: Mirror, sequence: int, seed: int) -> list[bytes]:
    """Answers of all layers to one query, with whatever is where it is now."""
    random, mirror.random = mirror.random, np.random.default_rng(seed)
    try:
        return [out.tobytes() for out in mirror.query([sequence])]
    finally:
        mirror.random = random


def test_a_step_does_not_wait_for_the_spill_that_it_starts(mirror: Mirror, writers: HeldWriters) -> None:
    sequence = mirror.add("a")
    decode(mirror, [sequence], UNIT + 1)
    assert writers.waiting == 2  # one per card
    assert stored(mirror, sequence) == [0, 0]
    stats = mirror.store.stats()
    assert stats.write_buffer_nbytes == (UNIT + 1 + UNIT) * TOKEN_NBYTES
    assert (stats.spills_in_flight, stats.spill_waits) == (1, 0)
    writers.work()
    assert stored(mirror, sequence) == [0, 0]
    mirror.step([sequence])
    assert stored(mirror, sequence) == [UNIT, UNIT]
    stats = mirror.store.stats()
    assert stats.write_buffer_nbytes == 2 * TOKEN_NBYTES
    assert (stats.spills, stats.spills_in_flight) == (1, 0)
    mirror.check_rows(sequence)


@pytest.mark.parametrize("options", ["", "&p2p=bounce"])
@pytest.mark.parametrize("moment", range(5))
def test_the_moment_of_the_change_alters_no_bit(tmp_path: Path, moment: int, options: str) -> None:
    """The spill ends between two calls of a step: before layer `moment` of it, counted over two steps."""
    writers = HeldWriters()
    with KVStore.open(layout(), urls(2, tmp_path, options=options), writer=writers) as store:
        mirror = Mirror(store)
        a, b = mirror.add(), mirror.add("b")
        decode(mirror, [a, b], UNIT + 1)
        seen: list[bytes] = []
        for call in range(4):
            if call == moment:
                writers.work()
            layer = call % 2
            q, k, v = mirror.draw(2, 1)
            out, lse = store.attend(layer, [a, b], q, k, v, scale=mirror.scale)
            mirror._keep(layer, [a, b], k, v)
            seen += [out.tobytes(), lse.tobytes()]
        before = outputs(mirror, a, 5), outputs(mirror, b, 5)
        store.flush()
        mirror.step([a, b])
        mirror.crop(a, UNIT + 3)
        mirror.crop(b, UNIT + 3)
        assert (outputs(mirror, a, 5), outputs(mirror, b, 5)) == before
        mirror.check_rows(a)
    # The same calls with a writer that is never late.
    with KVStore.open(layout(), urls(2, options=options)) as store:
        mirror = Mirror(store)
        a, b = mirror.add(), mirror.add()
        decode(mirror, [a, b], UNIT + 1)
        again: list[bytes] = []
        for call in range(4):
            q, k, v = mirror.draw(2, 1)
            out, lse = store.attend(call % 2, [a, b], q, k, v, scale=mirror.scale)
            again += [out.tobytes(), lse.tobytes()]
    assert seen == again


@pytest.mark.parametrize("spill_units", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 32])
def test_a_drive_that_is_behind_makes_calls_wait_and_memory_stays_bounded(
    tmp_path: Path, spill_units: int, n: int
) -> None:
    writers = HeldWriters()
    cards = urls(1, tmp_path, options=f"&spill={spill_units}")
    with KVStore.open(layout(), cards, writer=writers) as store:
        mirror = Mirror(store)
        sequence = mirror.add()
        for _ in range((8 * spill_units + 3) * UNIT // n):
            mirror.step([sequence], n)
        stats = store.stats()
        assert stats.spill_waits >= 4
        assert stats.spill_waits == stats.spills
        assert stats.write_buffer_peak_nbytes <= stats.write_buffer_limit_nbytes
        bound = ((spill_units + 1) * UNIT + n) * 2 * TOKEN_NBYTES
        assert stats.write_buffer_peak_nbytes <= bound
        mirror.check_rows(sequence)


def test_nothing_waits_where_the_drive_keeps_up(mirror: Mirror, writers: HeldWriters) -> None:
    sequence = mirror.add("a")
    for _ in range(5 * UNIT):
        mirror.step([sequence])
        writers.work()
    stats = mirror.store.stats()
    assert (stats.spill_waits, stats.spill_wait_s, stats.spills) == (0, 0.0, 4)
    assert stats.write_buffer_peak_nbytes == (2 * UNIT + 1) * TOKEN_NBYTES


def test_full_extents_of_a_card_are_one_request(tmp_path: Path) -> None:
    calls = FaultySyscalls(SystemCalls())
    with KVStore.open(layout(), urls(1, tmp_path, options="&spill=4"), syscalls=calls) as store:
        mirror = Mirror(store)
        sequence = mirror.add()
        decode(mirror, [sequence], 4 * UNIT)
        before = calls.calls["pwritev"], calls.calls["preadv"]
        mirror.step([sequence])
        store.flush()
        store.free(sequence)
        assert (calls.calls["pwritev"], calls.calls["preadv"]) == (before[0] + 1, before[1] + 1)


@pytest.mark.parametrize("call", ["append", "crop", "free", "flush", "read", "close"])
def test_every_other_call_is_safe_while_a_spill_is_under_way(
    mirror: Mirror, writers: HeldWriters, tmp_path: Path, call: str
) -> None:
    a, b = mirror.add("a"), mirror.add()
    decode(mirror, [a, b], UNIT + 1)
    assert writers.waiting == 4
    if call == "append":
        mirror.append([a, b], 3)
    elif call == "crop":
        mirror.crop(a, UNIT - 5)
        mirror.crop(b, UNIT + 1)
    elif call == "free":
        mirror.store.free(b)
        b = mirror.add()
        mirror.append([b], 2 * UNIT)
    elif call == "flush":
        mirror.store.flush()
    elif call == "read":
        mirror.check_rows(a)
    if call != "close":
        mirror.step([a, b])
        mirror.check_rows(a)
        mirror.check_rows(b)
    mirror.store.close()
    length = mirror.rows[a, 0][0].shape[1]
    with KVStore.open(layout(), urls(2, tmp_path)) as store:
        mirror.store = store
        assert store.length(store.open_sequence("a")) == length
        mirror.check_rows(0)


@pytest.mark.parametrize(
    ("call", "code", "text"),
    [
        ("pwritev", errno.ENOSPC, "disk full"),
        ("pwritev", errno.EIO, "EIO"),
        ("preadv", errno.EIO, "EIO"),
        ("fdatasync", errno.EIO, "sync"),
    ],
)
def test_a_failed_spill_is_told_by_the_next_call_and_no_token_is_lost(
    mirror: Mirror, writers: HeldWriters, calls: FaultySyscalls, tmp_path: Path, call: str, code: int, text: str
) -> None:
    a, b = mirror.add("a"), mirror.add()
    decode(mirror, [a, b], UNIT + 1)
    calls.faults = [Fails(call, code, first=calls.calls[call] + 1, last=None)]
    writers.work()
    mirror.query([a, b])
    mirror.check_rows(a)
    q, k, v = mirror.draw(2, 1)
    lengths = [mirror.store.length(a, layer) for layer in (0, 1)]
    for _ in range(2):  # reported, then tried again while the caller waits
        with pytest.raises(StorageError, match=text):
            mirror.store.attend(0, [a, b], q, k, v, scale=mirror.scale)
        assert [mirror.store.length(a, layer) for layer in (0, 1)] == lengths
        mirror.query([a, b])
    assert mirror.store.stats().spills_failed >= 2
    with pytest.raises(NotStored, match=r"tokens 0 to 32 of sequence 'a'") as caught:
        mirror.store.flush()
    assert caught.value.lost == (("a", 0, UNIT + 1),)
    calls.faults = []
    if call == "fdatasync":  # what was written before is not known to be stored: only a new store can tell
        with pytest.raises(NotStored, match="not known to be stored"):
            mirror.store.close()
        return
    mirror.store.flush()
    mirror.step([a, b])
    mirror.check_rows(a)
    mirror.check_rows(b)
    mirror.store.flush()
    die(mirror.store)
    with KVStore.open(layout(), urls(2, tmp_path)) as store:
        mirror.store = store
        assert store.length(store.open_sequence("a")) == UNIT + 2
        mirror.check_rows(0)


def test_close_says_what_it_could_not_store_and_keeps_what_was(
    mirror: Mirror, writers: HeldWriters, calls: FaultySyscalls, tmp_path: Path
) -> None:
    a, b, c = mirror.add("a"), mirror.add("b"), mirror.add()
    mirror.append([a, b, c], 10)
    mirror.store.flush()
    decode(mirror, [a, c], UNIT)
    calls.faults = [Fails("pwritev", errno.ENOSPC, first=calls.calls["pwritev"] + 1, last=None)]
    with pytest.raises(NotStored, match=r"tokens 10 to 41 of sequence 'a': .*data-000000\.pages.*free") as caught:
        mirror.store.close()
    assert caught.value.lost == (("a", 10, 10 + UNIT),)
    assert caught.value.errno_name == "ENOSPC"
    mirror.store.close()
    with KVStore.open(layout(), urls(2, tmp_path)) as store:
        mirror.store = store
        for name, old in (("a", a), ("b", b)):
            new = store.open_sequence(name)
            assert store.length(new) == 10
            mirror.moved(old, 100 + new, 10)
            mirror.moved(100 + new, new, 10)
            mirror.check_rows(new)


def test_an_index_that_cannot_be_written_is_a_failed_spill_on_every_card(
    mirror: Mirror, writers: HeldWriters, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sequence = mirror.add("a")
    mirror.append([sequence], 7)
    mirror.store.flush()
    decode(mirror, [sequence], UNIT)

    def full(*_: object) -> None:
        raise StorageError("database or disk is full", path="index.sqlite")

    with monkeypatch.context() as patch:
        patch.setattr(mirror.store._cards[1].volume.index, "add_spill", full)
        writers.work()
        records = [card.volume.index.find("a") for card in mirror.store._cards]
        assert [(r.stored, r.tokens) for r in records if r] == [(0, 7), (0, 7)]
        q, k, v = mirror.draw(1, 1)
        with pytest.raises(StorageError, match=r"index\.sqlite: database or disk is full"):
            mirror.store.attend(0, [sequence], q, k, v, scale=mirror.scale)
    mirror.step([sequence])
    assert stored(mirror, sequence) == [UNIT, UNIT]
    mirror.store.flush()
    die(mirror.store)
    with KVStore.open(layout(), urls(2, tmp_path)) as store:
        mirror.store = store
        assert store.length(store.open_sequence("a")) == UNIT + 8
        mirror.check_rows(0)


def test_ctrl_c_while_a_spill_is_handed_out_loses_nothing(mirror: Mirror, writers: HeldWriters) -> None:
    a, b = mirror.add("a"), mirror.add()
    decode(mirror, [a, b], UNIT)
    give, count = writers.give, [0]

    def interrupted(work: Work) -> Task:
        count[0] += 1
        if count[0] == 2:
            raise KeyboardInterrupt
        return give(work)

    writers.give = interrupted  # type: ignore[method-assign]
    q, k, v = mirror.draw(2, 1)
    with pytest.raises(KeyboardInterrupt):
        mirror.store.attend(0, [a, b], q, k, v, scale=mirror.scale)
    writers.work()
    with pytest.raises(DriverError, match="interrupted"):
        mirror.store.attend(0, [a, b], q, k, v, scale=mirror.scale)
    mirror.step([a, b])
    mirror.store.flush()
    mirror.check_rows(a)
    mirror.check_rows(b)


def test_ctrl_c_while_a_sequence_goes_gives_no_page_away_that_is_being_written(
    mirror: Mirror, writers: HeldWriters, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = mirror.add(), mirror.add("b")
    decode(mirror, [a], UNIT + 1)
    used = [card.volume.used_nbytes for card in mirror.store._cards]

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(writers.held[0]), "wait", interrupted)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                mirror.store.free(a)
            assert writers.waiting
            assert [card.volume.used_nbytes for card in mirror.store._cards] == used
    mirror.store.free(a)
    assert not writers.waiting
    stats = mirror.store.stats()
    assert (stats.spills_in_flight, stats.write_buffer_nbytes) == (0, 0)
    assert [card.volume.used_nbytes for card in mirror.store._cards] == [0, 0]
    decode(mirror, [b], UNIT + 1)
    mirror.store.flush()
    mirror.check_rows(b)


def test_a_spill_that_finds_no_memory_for_its_copy_holds_no_extent(
    mirror: Mirror, writers: HeldWriters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An extent that counts as being filled could never leave the card's memory again."""
    a = mirror.add("a")
    decode(mirror, [a], UNIT)
    inner, count = spiller.PartSpill, 0

    def second_fails(*values: Any) -> PartSpill:
        nonlocal count
        count += 1
        if count == 2:
            raise MemoryError
        return inner(*values)

    q, k, v = mirror.draw(1, 1)
    with monkeypatch.context() as patched:
        patched.setattr(spiller, "PartSpill", second_fails)
        with pytest.raises(MemoryError):
            mirror.store.attend(0, [a], q, k, v, scale=mirror.scale)
    groups = [group for part in mirror.store._sequences[a].parts for group in part.data.groups]
    assert groups
    assert [group.loading for group in groups] == [0] * len(groups)
    mirror.step([a])
    writers.work()
    mirror.store.flush()
    mirror.check_rows(a)


def test_cards_of_one_store_spill_alike() -> None:
    with pytest.raises(UserError, match="spill=2 and spill=3"):
        KVStore.open(layout(), ["sw_emu:0?spill=2", "sw_emu:1?spill=3"])
    for value in ("0", "65", "x", "-1", "1.5"):
        with pytest.raises(ValueError, match=f"spill={value}; a whole number from 1 to 64"):
            KVStore.open(layout(), [f"sw_emu:0?spill={value}"])
