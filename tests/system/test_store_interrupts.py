# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at any moment of the main thread in a call of a store: the call is done or it is not, and all goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from nearkv.kvstore import KVStore

from tests.support.interrupts import Interrupts
from tests.support.stores import Mirror, layout, urls

HELD = 140  # tokens, some of them on flash
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    with KVStore.open(layout(layers=1), urls(2, tmp_path)) as store:
        yield Mirror(store)


def moments(call: Callable[[int], None], again: int = 0, step: int = 1) -> Iterator[int]:
    """Ctrl-C at every `step`th moment of `call` until there are no more; yields after each."""
    moment, struck = 0, True
    while struck:
        moment += step
        ctrl_c = Interrupts(moment, again)
        with suppress(KeyboardInterrupt), ctrl_c:
            call(moment)
        struck = ctrl_c.struck
        yield moment
    assert moment > 20


@pytest.mark.parametrize("again", [0, 4])
def test_rows_are_stored_or_not(mirror: Mirror, again: int) -> None:
    store, sequence = mirror.store, mirror.add("a")
    mirror.append([sequence], HELD)
    _, k, v = mirror.draw(1, 40)
    lengths = set()
    for _ in moments(lambda _: store.append(0, [sequence], k, v), again):
        lengths.add(store.length(sequence))
        for got, want, new in zip(store.read(0, sequence), mirror.rows[sequence, 0], (k[0], v[0]), strict=True):
            assert np.array_equal(got, np.concatenate([want, new], axis=1)[:, : got.shape[1]])
        store.crop(sequence, HELD)
    assert lengths == {HELD, HELD + 40}
    mirror.step([sequence])


def test_attention_with_new_rows(mirror: Mirror) -> None:
    store, sequence = mirror.store, mirror.add()
    mirror.append([sequence], HELD)
    q, k, v = mirror.draw(1, 1)
    lengths = set()

    def attend(_: int) -> None:
        store.attend(0, [sequence], q, k, v, scale=mirror.scale)

    for _ in moments(attend):
        lengths.add(store.length(sequence))
        store.crop(sequence, HELD)
        mirror.query([sequence])
    assert lengths == {HELD, HELD + 1}
    mirror.step([sequence])


def test_a_crop_a_flush_and_a_free(mirror: Mirror) -> None:
    store = mirror.store

    def all_three(moment: int) -> None:
        sequence = mirror.add(f"s{moment}")
        mirror.append([sequence], HELD)
        store.crop(sequence, 70)
        store.flush()
        store.free(sequence)

    other = mirror.add("other")
    mirror.append([other], HELD)
    for moment in moments(all_three, step=2):
        name = f"s{moment}"
        if (sequence := store.opened(name)) is not None:
            assert store.length(sequence) in (0, 70, HELD)
            store.free(sequence)
        if name in store.names():
            again = store.open_sequence(name)
            assert store.length(again) in (0, 70, HELD)
            store.free(again)
            store.delete(name)
    mirror.step([other])
    mirror.check_rows(other)
    store.free(other)
    store.delete("other")
    assert [card.volume.used_nbytes for card in store._cards] == [0, 0]


def test_a_fork_and_a_named_fork(mirror: Mirror) -> None:
    store, parent = mirror.store, mirror.add("p")
    mirror.append([parent], HELD)

    def forked(moment: int) -> None:
        store.free(store.fork(parent))
        store.fork_named(parent, f"f{moment}")

    for moment in moments(forked):
        for sequence in [s for s in store._sequences if s != parent]:
            store.free(sequence)
        if f"f{moment}" in store.names():
            again = store.open_sequence(f"f{moment}")
            assert store.length(again) == HELD
            store.free(again)
            store.delete(f"f{moment}")
    mirror.step([parent])
    mirror.check_rows(parent)
    store.free(parent)
    store.delete("p")
    assert [card.volume.used_nbytes for card in store._cards] == [0, 0]


def test_the_close(tmp_path: Path) -> None:
    moment, struck = 0, True
    while struck:
        moment += 3  # each waits for a disk
        store = KVStore.open(layout(layers=1), urls(2, tmp_path))
        mirror = Mirror(store)
        sequence = mirror.add(f"s{moment}")
        mirror.append([sequence], 70)
        ctrl_c = Interrupts(moment)
        with suppress(KeyboardInterrupt), ctrl_c:
            store.close()
        struck = ctrl_c.struck
        store.close()
        with KVStore.open(layout(layers=1), urls(2, tmp_path)) as again:
            assert again.length(again.open_sequence(f"s{moment}")) == 70
    assert moment > 20
