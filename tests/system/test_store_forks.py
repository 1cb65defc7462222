# SPDX-License-Identifier: Apache-2.0
"""Forks share what is stored and never each other's future; reordering a batch writes nothing to flash."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nearkv.errors import UserError
from nearkv.kvstore import KVStore
from nearkv_driver.errors import OutOfDeviceMemory

from tests.support.held_writer import HeldWriters
from tests.support.stores import Mirror, die, layout, urls

# Within an extent, at a unit's border, at an extent's border, several extents.
LENGTHS = [0, 5, 32, 45, 96, 128, 160, 300]


def written(store: KVStore) -> int:
    return sum(card.media_write_nbytes for card in store.stats().cards)


def used(store: KVStore) -> list[tuple[int, int, int]]:
    """Card memory of extents, card memory beside them, and volume space in use."""
    return [
        (card.residency.used_nbytes, card.dram_nbytes - card.residency.nbytes, card.volume.used_nbytes)
        for card in store._cards
    ]


def constant(store: KVStore, sequence: int, n: int, value: float) -> None:
    """Appends n tokens whose V is `value` in every element, in every layer."""
    shape = store.layout
    k = np.random.default_rng(n).normal(size=(1, shape.kv_heads, n, shape.head_size)).astype(np.float16)
    for layer in range(shape.layers):
        store.append(layer, [sequence], k, np.full_like(k, value))


def averages(store: KVStore, sequences: list[int]) -> list[float]:
    """With q = 0 each output is the mean of V over the sequence's tokens."""
    q = np.zeros((len(sequences), store.layout.query_heads, 1, store.layout.head_size), np.float32)
    out = [store.attend(layer, sequences, q, scale=1.0)[0] for layer in range(store.layout.layers)]
    assert all(np.ptp(x, axis=(1, 2, 3)).max(initial=0) == 0 for x in out)
    return [float(x) for x in out[-1][:, 0, 0, 0]]


# All in card memory; nothing in it, every extent a wave of its own; and a card that two more split the tokens with.
PLACES = {"resident": (1, ""), "streamed": (2, "&staging=128K&resident=0"), "split": (3, "&staging=256K&resident=128K")}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("length", LENGTHS)
def test_parent_and_children_go_their_own_ways(length: int, place: str) -> None:
    cards, options = PLACES[place]
    with KVStore.open(layout(), urls(cards, options=options)) as store:
        mirror = Mirror(store, seed=length)
        parent = mirror.add()
        mirror.append([parent], length)
        first, second = mirror.fork(parent), mirror.fork(parent)
        grandchild = mirror.fork(second)
        batch = [parent, first, second, grandchild]
        for n in (1, 30, 1, 100):
            mirror.step(batch, min(n, 30))
            mirror.append(batch[::-1], n)
        mirror.step(batch, window=40)
        for sequence in batch:
            mirror.check_rows(sequence)


@pytest.mark.parametrize("window", [0, 7, 40])
def test_forks_attend_while_their_units_are_on_the_way_to_flash(window: int) -> None:
    """Both begin inside an extent that they share, so the child's spill has taken a group that holds nothing yet."""
    writers = HeldWriters()
    with KVStore.open(layout(), urls(1), writer=writers) as store:
        mirror = Mirror(store)
        parent = mirror.add()
        mirror.append([parent], 64)
        batch = [parent, mirror.fork(parent)]
        for _ in range(60):
            mirror.step(batch, window=window)
        assert store.stats().spills_in_flight == 2
        assert [len(state.parts[0].data.groups) for state in store._sequences.values()] == [1, 2]


@pytest.mark.parametrize("head_size", [64, 80, 128, 256])
def test_forks_at_every_head_size(head_size: int) -> None:
    with KVStore.open(layout(head_size=head_size), urls(2)) as store:
        mirror = Mirror(store)
        parent = mirror.add()
        mirror.append([parent], 90)
        child = mirror.fork(parent)
        mirror.append([parent, child], 120)
        mirror.step([parent, child])
        for sequence in (parent, child):
            mirror.check_rows(sequence)


def test_a_fork_shares_units_and_the_last_user_gives_them_back() -> None:
    with KVStore.open(layout(), urls(1)) as store:
        mirror = Mirror(store)
        empty = used(store)
        parent = mirror.add()
        mirror.append([parent], 160)
        alone, bytes_written = used(store), written(store)
        children = [mirror.fork(parent) for _ in range(5)]
        assert used(store)[0][0] == alone[0][0]
        assert used(store)[0][2] == alone[0][2]
        assert written(store) == bytes_written
        store.free(parent)
        store.free(children.pop(2))
        mirror.step(children)
        assert used(store)[0][2] == alone[0][2]
        for child in children:
            store.free(child)
        assert used(store) == empty


def test_a_fork_copies_rows_of_the_write_buffer_only() -> None:
    with KVStore.open(layout(), urls(1)) as store:
        mirror = Mirror(store)
        parent = mirror.add()
        mirror.append([parent], 1000)  # 31 units and 8 rows
        before = store.stats()
        mirror.fork(parent)
        after = store.stats()
        rows_nbytes = 8 * store.layout.kv_bytes_per_token
        assert after.cards[0].upload_nbytes - before.cards[0].upload_nbytes == rows_nbytes
        assert after.write_buffer_nbytes - before.write_buffer_nbytes == rows_nbytes
        assert after.cards[0].media_read_nbytes == before.cards[0].media_read_nbytes


def test_beams_follow_their_order_over_all_tiers() -> None:
    """Four beams, 16 tokens on flash and 4 in RAM (head size 128 has units of 16 tokens)."""
    with KVStore.open(layout(head_size=128), urls(2)) as store:
        beams = [store.add_sequence() for _ in range(4)]
        for beam, sequence in enumerate(beams):
            constant(store, sequence, 16, beam + 1)
            constant(store, sequence, 4, beam + 1)
        assert store.stats().write_buffer_nbytes == 4 * 4 * store.layout.kv_bytes_per_token
        bytes_written = written(store)
        beams = list(store.select(beams, [2, 2, 0, 3]))
        assert averages(store, beams) == [3, 3, 1, 4]
        for child, sequence in enumerate(beams):
            constant(store, sequence, 1, 10 * (child + 1))
        expected = [(20 * v + 10 * (i + 1)) / 21 for i, v in enumerate([3, 3, 1, 4])]
        np.testing.assert_allclose(averages(store, beams), expected, rtol=1e-6)
        beams = list(store.select(beams, [1, 0, 3, 2]))
        np.testing.assert_allclose(averages(store, beams), [expected[i] for i in (1, 0, 3, 2)], rtol=1e-6)
        assert written(store) == bytes_written


def test_company_and_reuse_of_places_in_the_batch() -> None:
    with KVStore.open(layout(), urls(2)) as store:
        values = {store.add_sequence(): v for v in (1.0, 2.0, 3.0, 4.0)}
        first, second, third, fourth = values
        for _ in range(10):
            for sequence, value in values.items():
                constant(store, sequence, 7, value)
            assert averages(store, list(values)) == list(values.values())
        for sequence in (second, fourth):
            store.free(sequence)
            with pytest.raises(KeyError, match=f"sequence {sequence} does not exist or was freed"):
                store.fork(sequence)
        del values[second], values[fourth]
        values.update({store.add_sequence(): v for v in (5.0, 6.0)})
        for size in (4, 2):
            batch = list(values)[:size]
            for sequence in batch:
                constant(store, sequence, 50, values[sequence])
            assert averages(store, batch) == [values[s] for s in batch]
        repeated = store.select([first, third], [0, 0, 1, 1, 1])
        assert averages(store, list(repeated)) == [1, 1, 3, 3, 3]
        (one,) = store.select(list(repeated), [4])
        assert averages(store, [one]) == [3]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("length", [0, 20, 100, 128, 161, 250])
def test_a_crop_never_alters_rows_that_others_share(length: int, place: str) -> None:
    cards, options = PLACES[place]
    with KVStore.open(layout(), urls(cards, options=options)) as store:
        mirror = Mirror(store, seed=length)
        parent = mirror.add()
        mirror.append([parent], 250)
        batch = [parent, mirror.fork(parent), mirror.fork(parent)]
        for sequence in batch[:2]:
            mirror.crop(sequence, length)
            mirror.append([sequence], 140)
        mirror.step(batch)
        mirror.append(batch, 40)
        for sequence in batch:
            mirror.check_rows(sequence)
        mirror.query(batch)


def test_layers_that_run_ahead_after_a_crop_keep_apart() -> None:
    """The owner of a shared group is cut above the shared part, one layer being behind, and goes on."""
    with KVStore.open(layout(head_size=128), urls(1)) as store:
        mirror = Mirror(store)
        parent = mirror.add()
        mirror.append([parent], 96)
        child = mirror.fork(parent)
        mirror.append([parent], 32, layers=[0])
        mirror.crop(parent, 112)
        mirror.append([parent], 16, layers=[1])
        assert [store.length(parent, layer) for layer in (0, 1)] == [112, 112]
        mirror.append([child, parent], 60)
        mirror.step([child, parent])
        for sequence in (parent, child):
            mirror.check_rows(sequence)


def test_the_owner_of_a_shared_group_goes_on_in_it_and_so_does_an_heir() -> None:
    with KVStore.open(layout(), urls(1)) as store:
        mirror = Mirror(store)
        parent = mirror.add()
        mirror.append([parent], 32)
        group_nbytes = used(store)[0][2]
        child = mirror.fork(parent)
        mirror.append([parent], 32)
        assert used(store)[0][2] == group_nbytes
        mirror.append([child], 32)
        assert used(store)[0][2] == 2 * group_nbytes
        heirs = [mirror.fork(parent), mirror.fork(parent)]
        store.free(parent)
        mirror.append(heirs, 32)
        assert used(store)[0][2] == 3 * group_nbytes
        for sequence in (child, *heirs):
            mirror.check_rows(sequence)


def test_forks_of_a_named_sequence_leave_its_pages_as_they_are(tmp_path: Path) -> None:
    cards = urls(2, tmp_path)
    with KVStore.open(layout(), cards) as store:
        mirror = Mirror(store)
        named = mirror.add("prefix")
        mirror.append([named], 170)
        store.flush()
        child = mirror.fork(named)
        mirror.append([child], 60)
        mirror.crop(named, 150)
        mirror.append([named], 80)
        store.flush()
        mirror.check_rows(child)
        kept = mirror.rows[named, 0]
        second = mirror.fork(named)
        mirror.append([second, named], 30)
        store.free(named)
        opened = store.open_sequence("prefix")
        mirror.moved(named, opened, 260)
        mirror.crop(opened, 100)
        mirror.append([opened, second, child], 100)
        mirror.step([opened, second, child])
        for sequence in (opened, second, child):
            mirror.check_rows(sequence)
        np.testing.assert_array_equal(kept[0][:, :100], mirror.rows[opened, 0][0][:, :100])
        store.flush()
        die(store)
    mirror.store = KVStore.open(layout(), cards)
    with mirror.store as store:
        again = store.open_sequence("prefix")
        mirror.moved(opened, again, 201)
        assert store.length(again) == 201
        mirror.check_rows(again)


def test_a_name_may_be_deleted_while_forks_read_its_pages(tmp_path: Path) -> None:
    with KVStore.open(layout(), urls(1, tmp_path)) as store:
        mirror = Mirror(store)
        empty = used(store)
        named = mirror.add("prefix")
        mirror.append([named], 200)
        child = mirror.fork(named)
        store.free(named)
        store.delete("prefix")
        other = mirror.add()
        mirror.append([other, child], 300)
        mirror.step([other, child])
        for sequence in (other, child):
            mirror.check_rows(sequence)
            store.free(sequence)
        assert used(store) == empty


def test_a_step_that_is_under_way_cannot_be_forked() -> None:
    with KVStore.open(layout(), urls(1, kernel="model")) as store:
        mirror = Mirror(store)
        sequence = mirror.add()
        mirror.append([sequence], 3, layers=[0])
        with pytest.raises(UserError, match="middle of a step: its layers hold 0 to 3 tokens"):
            store.fork(sequence)
        with pytest.raises(UserError, match="row 2 does not exist; the batch has 1 rows"):
            store.select([sequence], [0, 2])


def test_a_batch_with_a_sequence_twice_is_refused() -> None:
    """Else the second one, dropped, would free the first, which is kept."""
    with KVStore.open(layout(), urls(1)) as store:
        mirror = Mirror(store)
        sequence = mirror.add()
        mirror.append([sequence], 40)
        with pytest.raises(UserError, match=r"a sequence stands twice in \[0, 0\]"):
            store.select([sequence, sequence], [0])
        mirror.step([sequence])


def test_a_selection_that_does_not_fit_changes_nothing() -> None:
    with KVStore.open(layout(), urls(1)) as store:
        mirror = Mirror(store)
        batch = [mirror.add(), mirror.add()]
        mirror.append(batch, 40)
        before = used(store)
        with pytest.raises(OutOfDeviceMemory, match="tail of a new sequence"):
            store.select(batch, [1] * 2000)
        assert used(store)[0][1:] == before[0][1:]  # extents have left card memory for the tails that were tried
        mirror.step(batch)


@pytest.mark.parametrize("prefix", [False, True])
def test_a_partial_page_grows_without_changing(tmp_path: Path, prefix: bool) -> None:
    """7 tokens and a flush, three times; the last 5 of 21 lie in a unit of 16. Or a saved prefix of 20 and 1 more."""
    cards = urls(1, tmp_path)
    shape = layout(head_size=128)
    with KVStore.open(shape, cards) as store:
        mirror = Mirror(store)
        sequence = mirror.add("chat")
        for n in (20,) if prefix else (7, 7, 7):
            mirror.append([sequence], n)
            store.flush()
    mirror.store = KVStore.open(shape, cards)
    with mirror.store as store:
        opened = store.open_sequence("chat")
        mirror.moved(sequence, opened, 21)
        if prefix:
            child = mirror.fork(opened)
            mirror.step([child, opened])
        assert store.length(opened) == 21
        assert store.stats().write_buffer_nbytes == (10 if prefix else 5) * shape.kv_bytes_per_token
        mirror.check_rows(opened)
        mirror.append([opened], 1)  # dies before it is flushed
        if prefix:
            return
        die(store)
    mirror.store = KVStore.open(shape, cards)
    with mirror.store as store:
        again = store.open_sequence("chat")
        mirror.moved(opened, again, 21)
        assert store.length(again) == 21
        mirror.check_rows(again)
