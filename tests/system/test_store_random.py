# SPDX-License-Identifier: Apache-2.0
"""Random histories of a store on emulated cards beside plain arrays: nothing is lost or made up, answers agree."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from nearkv.kvstore import KVStore

from tests.support.held_writer import HeldWriters
from tests.support.stores import Mirror, die, layout, urls

MOST_SEQUENCES = 4


class StoreMachine(RuleBasedStateMachine):
    """Sequences with a name survive reopening with what they held at the last flush or complete spill.

    Extents stay in card memory, or few do, or none. Spills are written when a rule says so, or when a call has to wait
    for them.
    """

    @initialize(
        cards=st.integers(1, 3),
        head_size=st.sampled_from([64, 80, 128]),
        spill=st.sampled_from([1, 1, 2, 5]),
        memory=st.sampled_from(["", "&resident=0", "&resident=300K&staging=512K", "&resident=0&p2p=bounce&reads=2"]),
        seed=st.integers(0, 2**20),
    )
    def begin(self, cards: int, head_size: int, spill: int, memory: str, seed: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.urls = urls(cards, Path(self.folder.name), options=f"&spill={spill}{memory}")
        self.layout = layout(head_size=head_size)
        self.writers = HeldWriters()
        self.mirror = Mirror(KVStore.open(self.layout, self.urls, writer=self.writers), seed)
        # What may be in the write buffer between calls.
        self.most = (spill + 1) * self.layout.unit_tokens + 64
        self.names: dict[int, str | None] = {}
        self.durable: dict[str, int] = {}  # tokens that the death of the process may not take
        self.count = 0

    def teardown(self) -> None:
        if hasattr(self, "mirror"):
            self.mirror.store.close()
            self.folder.cleanup()

    def some(self, data: st.DataObject, least: int = 1) -> list[int]:
        return data.draw(st.lists(st.sampled_from(sorted(self.names)), unique=True, min_size=least), label="sequences")

    @precondition(lambda self: len(self.names) < MOST_SEQUENCES)
    @rule(named=st.booleans())
    def add(self, named: bool) -> None:
        self.count += 1
        name = f"s{self.count}" if named else None
        self.names[self.mirror.add(name)] = name
        if name is not None:
            self.durable[name] = 0

    def flushed(self) -> None:
        """A flush has returned: all tokens that every layer has are durable."""
        for sequence, name in self.names.items():
            if name is not None:
                self.durable[name] = self.mirror.store.length(sequence)

    @precondition(lambda self: self.names)
    @rule(data=st.data(), n=st.integers(0, 200))
    def append(self, data: st.DataObject, n: int) -> None:
        self.mirror.append(self.some(data), n)

    @precondition(lambda self: self.names)
    @rule(data=st.data(), n=st.integers(1, 32), window=st.sampled_from([0, 0, 1, 40, 300]), masked=st.booleans())
    def step(self, data: st.DataObject, n: int, window: int, masked: bool) -> None:
        batch = self.some(data)
        valid = self.mirror.random.random((len(batch), n)) < 0.7 if masked else None
        self.mirror.step(batch, n, window, valid)

    @precondition(lambda self: self.names)
    @rule(data=st.data(), part=st.floats(0, 1))
    def crop(self, data: st.DataObject, part: float) -> None:
        sequence = self.some(data)[0]
        length = int(self.mirror.store.length(sequence) * part)
        self.mirror.crop(sequence, length)
        name = self.names[sequence]
        if name is not None:
            self.durable[name] = min(self.durable[name], length)

    @precondition(lambda self: 0 < len(self.names) < MOST_SEQUENCES)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        self.names[self.mirror.fork(self.some(data)[0])] = None

    @precondition(lambda self: list(self.names.values()).count(None) > 1)
    @rule(data=st.data())
    def reorder(self, data: st.DataObject) -> None:
        """As a beam search does: some rows twice, others dropped."""
        batch = [sequence for sequence, name in sorted(self.names.items()) if name is None]
        order = data.draw(st.lists(st.sampled_from(range(len(batch))), min_size=len(batch), max_size=len(batch)))
        for sequence in batch:
            del self.names[sequence]
        self.names.update(dict.fromkeys(self.mirror.select(batch, order)))

    @precondition(lambda self: self.names)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        sequence = self.some(data)[0]
        name = self.names.pop(sequence)
        self.mirror.store.free(sequence)
        if name is not None:
            opened = self.mirror.store.open_sequence(name)
            self.mirror.moved(sequence, opened, self.mirror.store.length(opened))
            self.names[opened] = name
            self.durable[name] = self.mirror.store.length(opened)

    @precondition(lambda self: self.names)
    @rule(data=st.data(), n=st.integers(1, 150))
    def run_ahead(self, data: st.DataObject, n: int) -> None:
        """Layer 0 takes rows, everything is flushed, and layer 1 follows."""
        batch = self.some(data)
        self.mirror.append(batch, n, layers=[0])
        self.mirror.store.flush()
        self.flushed()
        self.mirror.append(batch, n, layers=[1])

    @rule(count=st.integers(1, 4))
    def write(self, count: int) -> None:
        """Some of the spills under way end."""
        self.writers.work(count)

    @precondition(lambda self: self.names)
    @rule(data=st.data(), n=st.integers(1, 80))
    def decode(self, data: st.DataObject, n: int) -> None:
        """Steps of one token, whose answers are not compared one by one."""
        batch = self.some(data)
        for _ in range(n):
            for layer in range(2):
                q, k, v = self.mirror.draw(len(batch), 1)
                self.mirror.store.attend(layer, batch, q, k, v, scale=self.mirror.scale)
                self.mirror._keep(layer, batch, k, v)

    @rule()
    def flush(self) -> None:
        self.mirror.store.flush()
        self.flushed()

    @rule(cleanly=st.booleans())
    def reopen(self, cleanly: bool) -> None:
        """Closes, or ends as a process that dies would; what is left of a named sequence is a prefix."""
        least = {}
        store = self.mirror.store
        for sequence, name in self.names.items():
            if name is not None:
                tokens = store.length(sequence)
                units = tokens - tokens % self.layout.unit_tokens
                # Without a flush, what was in the write buffer may be lost.
                floor = tokens if cleanly else max(units - self.most, self.durable[name])
                least[name] = (sequence, floor, tokens)
        if cleanly:
            store.close()
        else:
            die(store)
        self.mirror.store = KVStore.open(self.layout, self.urls, writer=self.writers)
        self.names = {}
        for name, (sequence, floor, ceiling) in least.items():
            opened = self.mirror.store.open_sequence(name)
            tokens = self.mirror.store.length(opened)
            assert floor <= tokens <= ceiling
            self.durable[name] = tokens
            rows = {key: value for key, value in self.mirror.rows.items() if key[0] == sequence}
            fresh = {(1000 + opened, layer): (k[:, :tokens], v[:, :tokens]) for (_, layer), (k, v) in rows.items()}
            self.mirror.rows.update(fresh)
            self.names[opened] = name
        kept = {(s - 1000, layer): kv for (s, layer), kv in self.mirror.rows.items() if s >= 1000}
        self.mirror.rows = kept

    @invariant()
    def lengths_agree(self) -> None:
        for sequence in getattr(self, "names", ()):
            assert self.mirror.store.length(sequence) == self.mirror.rows[sequence, 0][0].shape[1]

    @precondition(lambda self: self.names)
    @rule(data=st.data())
    def compare(self, data: st.DataObject) -> None:
        batch = self.some(data)
        self.mirror.query(batch)
        self.mirror.check_rows(batch[0])

    @precondition(lambda self: not getattr(self, "names", None))
    @rule()
    def nothing_is_left_of_freed_sequences(self) -> None:
        for card in self.mirror.store._cards:
            assert (card.residency.used_nbytes, card.volume.used_nbytes) == (0, 0)

    @invariant()
    def the_write_buffer_counts_its_rows(self) -> None:
        if not hasattr(self, "mirror"):
            return
        states = self.mirror.store._sequences.values()
        rows = sum(state.tail.live(layer) for state in states for layer in range(2))
        token_nbytes = self.layout.kv_bytes_per_token // 2
        flights = self.mirror.store._spiller._flights.values()
        stats = self.mirror.store.stats()
        assert stats.write_buffer_nbytes == rows * token_nbytes + sum(flight.nbytes for flight in flights)
        assert stats.write_buffer_peak_nbytes <= stats.write_buffer_limit_nbytes
        assert all(state.tail.live(layer) <= self.most for state in states for layer in range(2))
        loading = sum(g.loading for s in states for part in s.parts for g in part.data.groups)
        assert (loading > 0) == bool(flights)
        assert not np.isnan([state.tokens for state in states]).any()


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=8, stateful_step_count=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@pytest.mark.soak
class TestLongHistories(StoreMachine.TestCase):  # type: ignore[name-defined, misc]
    settings = settings(
        max_examples=300, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
    )
