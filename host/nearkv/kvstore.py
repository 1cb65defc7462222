# SPDX-License-Identifier: Apache-2.0
"""KVStore, the engine: K and V of many sequences on cards, attention computed there. The order of the steps, no more.

Rows come in by layer, are kept in a RAM write buffer and on the cards, and go to flash in whole units. Every call
either does all it says or raises and leaves lengths and stored rows as they were, Ctrl-C or not. One thread at a time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Self

import numpy as np
from nearkv_driver.errors import DriverError
from nearkv_driver.syscalls import Syscalls
from nearkv_driver.work_threads import WorkThreads
from numpy.typing import NDArray

from nearkv import checks, copies
from nearkv.card_run import Stop
from nearkv.card_store import CardStore
from nearkv.cards import evicts, open_cards
from nearkv.counters import closed_stats, store_stats
from nearkv.eviction import Eviction, touch
from nearkv.layout import ModelLayout
from nearkv.named_sequences import NamedSequences
from nearkv.new_sequence import new_sequence
from nearkv.open_sequences import OpenSequences
from nearkv.ownership import Owner, abandon
from nearkv.sequence import SequenceInfo
from nearkv.sequence_lives import SequenceLives
from nearkv.spiller import new_spiller
from nearkv.stats import StoreStats
from nearkv.store_calls import Halves, StoreCalls
from nearkv.tail import WriteBuffer
from nearkv.timeline import Timeline
from nearkv.token_ids import Ids, check_ids
from nearkv.whole_calls import WholeCalls, whole
from nearkv.writer import Writer


class KVStore:
    """Open with `KVStore.open`; a context manager. Arrays are NumPy; batches are in the order of `sequences`."""

    def __init__(
        self,
        layout: ModelLayout,
        cards: Sequence[CardStore],
        writers: Sequence[Writer],
        resources: ExitStack,
        timeline: Timeline | None = None,
    ) -> None:
        """Use `open`. `resources` ends writers, closes cards and removes temporary volumes."""
        self.layout = layout
        self._cards, self._resources, self._owner = tuple(cards), resources, Owner()
        self._dropped = weakref.finalize(self, abandon, self._owner, resources)
        self._sequences = OpenSequences(self._owner)
        self._buffer = WriteBuffer(cards[0].spill_units)
        self._named = NamedSequences(layout, self._cards, self._sequences, self._buffer)
        self._eviction: Eviction | None = None
        self._spiller = new_spiller(layout, self._buffer, cards, writers, resources)
        self._calls = StoreCalls(layout, self._cards, self._sequences, self._spiller, timeline)
        self._lives = SequenceLives(layout, self._sequences, self._spiller, self._buffer, self._calls.forecast.forget)
        self._last: StoreStats | None = None
        self._whole = WholeCalls("store of " + ", ".join(card.device.url for card in cards), self._owner.check)
        resources.callback(self._whole.close)

    @classmethod
    def open(
        cls,
        layout: ModelLayout,
        cards: Sequence[str],
        *,
        syscalls: Syscalls | None = None,
        writer: Callable[[str], Writer] = WorkThreads,
        timeline: Timeline | None = None,
    ) -> Self:
        """Opens the cards of these URLs, each with the volume in `?ssd=` or, without, a temporary one removed at close.

        `syscalls` stands for the operating system under the volumes' data files, `writer` (called with a name) for the
        thread that writes behind the decode steps; tests make them fail, and wait. `timeline` is told what host, link,
        drive and kernel do when.

        UserError or ValueError for a bad URL, a volume made for something else, or the same volume twice.
        """
        with ExitStack() as stack:
            evicts(cards)  # refused before any card is opened
            opened = open_cards(layout, cards, stack, syscalls, timeline)
            writers = [writer(f"writer of {card.device.url}") for card in opened]
            store = cls(layout, opened, writers, stack.pop_all(), timeline)
        if evicts(cards):
            store._eviction = Eviction(store._cards, weakref.WeakMethod(store._sequences.names))
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except DriverError as failed:
            if error is None:
                raise
            error.add_note(f"and closing the store: {failed}")

    @whole
    def add_sequence(
        self, name: str | None = None, *, keys: Sequence[bytes] = (), tokens: Sequence[int] = (), more: int = 0
    ) -> int:
        """A new sequence; with a name it stays on the volumes as of its last `flush`, else it goes at close.

        It is empty, unless extents of `extent_tokens` tokens are on the volumes that `label` gave these `keys`: then a
        named one begins with the longest run of them from token 0 on, which it shares. `length` tells. Rows that are
        known to be of other tokens than the first of `tokens` are not taken, whatever their key. `more` sequences come
        next, and all are spread over the cards together."""
        if name is not None and (sequence := self._named.begin(name, keys, tokens)) is not None:
            return sequence
        state = new_sequence(self._sequences.next_id, name, self._cards, self.layout, self._buffer, more)
        return self._sequences.enter(state)

    @whole
    def shared(self, keys: Sequence[bytes], tokens: Sequence[int] = ()) -> int:
        """How many tokens `add_sequence` would find for these."""
        return self._named.shared(keys, tokens)

    def note(self, sequence: int, tokens: Sequence[int]) -> None:
        """The rows that come next are of these tokens, numbers below 2**32; the index of a volume keeps them."""
        self._sequences[sequence].note(check_ids(tokens))

    def token_ids(self, sequence: int) -> tuple[int | None, ...]:
        """Which tokens the rows of a sequence are of: what `note` was told, None where it was not."""
        return self._sequences[sequence].token_ids()

    def guard(self, sequence: int, before_durable: Callable[[], None]) -> None:
        """`before_durable` is called, by the thread that makes the call under way, which is the store's own for calls
        of the main thread, before rows of a named sequence that are not durable become so. What it raises keeps them
        from it, as a full disk would."""
        self._sequences[sequence].guard = before_durable

    @whole
    def label(self, sequence: int, keys: Sequence[bytes]) -> None:
        """Tells what extents 0, 1, ... of a named sequence hold: two extents with one key hold the same rows, and
        `add_sequence` finds them. Those that are not full and on the volumes yet get none."""
        copies.label(self._sequences[sequence], self.layout, keys)

    @whole
    def fork_named(self, sequence: int, name: str) -> None:
        """A new named sequence on the volumes that has all tokens of this one, which has a name too. It is not open.
        Full extents are shared, not copied; the rest of less than an extent is. Durable when this returns."""
        parent = self._sequences[sequence]
        self._named.check_copy(parent, name)
        self._lives.flush_named([sequence])
        self._named.copy(parent, name)

    @whole
    def fork(self, sequence: int) -> int:
        """A new sequence without a name that begins with all tokens of this one; from here on each goes its own way.

        Whole units are shared, not copied, until the last sequence that uses them is freed; only rows of the write
        buffer are copied, here and on the cards. UserError while layers hold different numbers of tokens.
        """
        return self._lives.fork(sequence)

    @whole
    def select(self, sequences: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
        """The batch `sequences` with rows `order`: a row that is named once keeps its id, the second and later times
        give forks, and rows that are not named are freed. Index work only: no stored row moves. A failure changes
        nothing: sequences with a name are flushed before any is freed."""
        return self._lives.select(sequences, order)

    @whole
    def open_sequence(self, name: str) -> int:
        """Opens a named sequence from the volumes; `info` tells what had to be dropped. KeyError: unknown name."""
        return self._named.open(name)

    def opened(self, name: str) -> int | None:
        """The open sequence of this name."""
        return self._sequences.named(name)

    @whole
    def names(self) -> tuple[str, ...]:
        """Names of all sequences on the volumes."""
        return self._named.names()

    @whole
    def used_nbytes(self, name: str) -> int:
        """What a named sequence takes on all volumes as of its last flush; shared pages count in full."""
        return self._named.used_nbytes(name)

    @whole
    def recorded_ids(self, name: str) -> tuple[Ids, ...]:
        """Which tokens the rows of a named sequence are of that is not open, as each volume with some of it has them:
        opening it drops what they do not all have."""
        return tuple(r.ids for card in self._cards if (r := card.volume.index.find(name)) is not None)

    @whole
    def delete(self, name: str) -> None:
        """Removes a named sequence, which must not be open, from the volumes."""
        self._named.delete(name)

    def info(self, sequence: int) -> SequenceInfo:
        return self._sequences[sequence].info()

    def length(self, sequence: int, layer: int | None = None) -> int:
        """Tokens that the layer holds; without one, tokens that every layer holds."""
        state = self._sequences[sequence]
        if layer is None:
            return state.tokens
        checks.check_layer(layer, self.layout)
        return state.tail.end[layer]

    @whole
    def append(
        self, layer: int, sequences: Sequence[int], k: Halves, v: Halves, valid: NDArray[np.bool_] | None = None
    ) -> None:
        """Stores k and v, float16 [batch, kv_heads, n, head_size], but for rows with `valid` [batch, n] False.

        For a layout of bfloat16 they are uint16, the elements' bits; so is what `read` gives.
        """
        self._calls.append(layer, sequences, k, v, valid)

    def attend(
        self,
        layer: int,
        sequences: Sequence[int],
        q: NDArray[np.float32],
        k: Halves | None = None,
        v: Halves | None = None,
        *,
        scale: float,
        window: int = 0,
        valid: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """(output float32 [batch, query_heads, n, head_size], log-sum-exp float64 [batch, query_heads, n]).

        With k and v, the n new rows are stored and each query token sees everything up to its own row; without, every
        query token sees all stored tokens. With a window only the last `window` of them. Query tokens with `valid`
        False, and those that see nothing, get zeros and -inf. At most 64 rows (query tokens x group) per KV head.
        """
        stop = Stop()
        call = partial(self._calls.attend, layer, sequences, q, k, v, scale, window, valid, stop)
        return self._whole.run(call, stop.interrupt)

    @whole
    def read(self, layer: int, sequence: int) -> tuple[Halves, Halves]:
        """All K and V of a layer, [kv_heads, length, head_size], read back from volumes and write buffer; counted."""
        return self._calls.read(layer, sequence)

    @whole
    def crop(self, sequence: int, length: int) -> None:
        """Drops all tokens from `length` on, in every layer."""
        self._lives.crop(sequence, length)

    @whole
    def flush(self) -> None:
        """Every complete token of every named sequence is on flash, and in the index, when this returns. NotStored
        names the sequences and tokens that could not be stored; all others are, and it may be called again."""
        self._lives.flush()

    @whole
    def free(self, sequence: int) -> None:
        """Ends the id and gives its memory back. A named sequence is flushed and stays on the volumes; another one's
        space there is free again."""
        self._lives.free(sequence)

    def close(self) -> None:
        """Flushes named sequences, closes cards and volumes, whatever fails. May be called again.

        NotStored says what could not be stored. In a forked process, which owns nothing of it, this does nothing.
        """
        if self._owner.here:
            self._whole.run(self._close)

    def stats(self) -> StoreStats:
        """Counters as they are; of a closed store as they were at its end, with what closing wrote to the indexes."""
        if self._last is not None:
            return self._last
        states = list(self._sequences.values())
        return store_stats(self._cards, states, self._buffer, self._spiller, self._calls, self._eviction)

    def _close(self) -> None:
        self._dropped.detach()  # here: after a Ctrl-C before this, dropping the store still gives cards and locks back
        try:
            self._lives.flush()
            touch(self._sequences.values())
        finally:
            last = self.stats()
            self._sequences.clear()
            try:
                self._resources.close()
            finally:
                self._last = closed_stats(last, self._cards)
