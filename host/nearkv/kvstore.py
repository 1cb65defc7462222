# SPDX-License-Identifier: Apache-2.0
"""KVStore, the engine: K and V of many sequences on cards, attention computed there. The order of the steps, no more.

Rows come in by layer, are kept in a RAM write buffer and on the cards, and go to flash in whole units. Every call
either does all it says or raises and leaves lengths and stored rows as they were. One thread at a time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np
from nearkv_driver.errors import DriverError
from nearkv_driver.syscalls import Syscalls
from numpy.typing import NDArray

from nearkv import checks, copies, forks, sessions, spill
from nearkv.attend_call import Query, attend, guess
from nearkv.card_store import CardStore
from nearkv.cards import evicts, open_cards
from nearkv.counters import card_stats
from nearkv.errors import UserError
from nearkv.eviction import Eviction, touch
from nearkv.fetches import Wave
from nearkv.forecast import Call, Forecast
from nearkv.layout import ModelLayout
from nearkv.ownership import Owner, abandon
from nearkv.placement import shares
from nearkv.requests import Requests
from nearkv.sequence import Part, SequenceInfo, SequenceState
from nearkv.spiller import Spiller
from nearkv.stats import StoreStats, link_nbytes, offload_nbytes
from nearkv.tail import Tail, WriteBuffer
from nearkv.timeline import HOST, Timeline
from nearkv.token_ids import check_ids
from nearkv.writer import Writer, WriterThread

Halves = NDArray[np.float16]


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
        self._sequences: dict[int, SequenceState] = {}
        self._next_id = 0
        self._buffer = WriteBuffer(cards[0].spill_units)
        self._eviction: Eviction | None = None
        self._making: set[str] = set()  # names that a call under way makes or copies
        requests = [resources.enter_context(closing(Requests(f"requests of {c.device.url}"))) for c in cards]
        for writer in writers:
            resources.callback(writer.close)
        self._spiller = Spiller(layout, self._buffer, writers, requests)
        self._forecast = Forecast(layout.layers)
        self._timeline, self._returned_s = timeline, 0.0
        self._formula_nbytes = self._offload_nbytes = 0
        self._last: StoreStats | None = None

    @classmethod
    def open(
        cls,
        layout: ModelLayout,
        cards: Sequence[str],
        *,
        syscalls: Syscalls | None = None,
        writer: Callable[[str], Writer] = WriterThread,
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
            store._eviction = Eviction(store._cards, weakref.WeakMethod(store._open_names))
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

    def add_sequence(self, name: str | None = None, *, keys: Sequence[bytes] = (), tokens: Sequence[int] = ()) -> int:
        """A new sequence; with a name it stays on the volumes as of its last `flush`, else it goes at close.

        It is empty, unless extents of `extent_tokens` tokens are on the volumes that `label` gave these `keys`: then a
        named one begins with the longest run of them from token 0 on, which it shares. `length` tells. Rows that are
        known to be of other tokens than the first of `tokens` are not taken, whatever their key.
        """
        self._owner.check()
        if name is not None:
            self._check_new(name)
            if keys and copies.adopt(self._cards, self.layout, name, keys, tokens):
                return self.open_sequence(name)
        loads = [sum(len(s.heads) / s.stripe.of for s in card.sequences) for card in self._cards]
        parts: list[Part] = []
        try:
            # The index of a volume knows whole heads only, so a named sequence is not split by tokens.
            for share in shares(loads, self.layout.kv_heads, split=name is None):
                card = self._cards[share.card]
                parts.append(Part(share.card, card, card.add(share.heads, share.stripe)))
            state = SequenceState(self._next_id, name, Tail(self.layout, self._buffer), tuple(parts))
            if name is not None:
                sessions.create(state, name)
        except BaseException:
            for part in parts:
                part.card.remove(part.data, keep_pages=False)
            raise
        return self._enter(state)

    def shared(self, keys: Sequence[bytes], tokens: Sequence[int] = ()) -> int:
        """How many tokens `add_sequence` would find for these."""
        self._owner.check()
        return copies.shared(self._cards, self.layout, keys, tokens)

    def note(self, sequence: int, tokens: Sequence[int]) -> None:
        """The rows that come next are of these tokens, numbers below 2**32; the index of a volume keeps them."""
        state = self._state(sequence)
        known = check_ids(tokens)
        del state.ids[state.tokens :]
        state.ids.extend([None] * (state.tokens - len(state.ids)))
        state.ids.extend(known)

    def token_ids(self, sequence: int) -> tuple[int | None, ...]:
        """Which tokens the rows of a sequence are of: what `note` was told, None where it was not."""
        state = self._state(sequence)
        known = state.ids[: state.tokens]
        return (*known, *[None] * (state.tokens - len(known)))

    def guard(self, sequence: int, before_durable: Callable[[], None]) -> None:
        """`before_durable` is called, on the caller's thread, before rows of a named sequence that are not durable yet
        become so. What it raises keeps them from it, as a full disk would."""
        self._state(sequence).guard = before_durable

    def label(self, sequence: int, keys: Sequence[bytes]) -> None:
        """Tells what extents 0, 1, ... of a named sequence hold: two extents with one key hold the same rows, and
        `add_sequence` finds them. Those that are not full and on the volumes yet get none."""
        copies.label(self._state(sequence), self.layout, keys)

    def fork_named(self, sequence: int, name: str) -> None:
        """A new named sequence on the volumes that has all tokens of this one, which has a name too. It is not open.

        Full extents are shared, not copied; the rest of less than an extent is. Durable when this returns.
        """
        parent = self._state(sequence)
        self._check_new(name)
        if parent.name is None:
            raise UserError(f"sequence {sequence} has no name, so nothing of it is durable; fork copies it in memory")
        if not parent.complete:
            raise UserError(f"sequence {sequence} is in the middle of a step; fork it when all layers hold the same")
        self._flush_named([sequence])
        with self._held(name):
            copies.fork_named(parent, name)

    def fork(self, sequence: int) -> int:
        """A new sequence without a name that begins with all tokens of this one; from here on each goes its own way.

        Whole units are shared, not copied, until the last sequence that uses them is freed; only rows of the write
        buffer are copied, here and on the cards. UserError while layers hold different numbers of tokens.
        """
        parent = self._state(sequence)
        self._spiller.drain(parent)
        return self._enter(forks.fork(parent, self._next_id, self.layout, self._buffer))

    def select(self, sequences: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
        """The batch `sequences` with rows `order`: a row that is named once keeps its id, the second and later times
        give forks, and rows that are not named are freed. Index work only: no stored row moves. A failure changes
        nothing: sequences with a name are flushed before any is freed."""
        ids = [state.id for state in self._batch(sequences)]
        return forks.select(ids, order, self.fork, self._flush_named, lambda i: self._release(self._sequences[i]))

    def open_sequence(self, name: str) -> int:
        """Opens a named sequence from the volumes; `info` tells what had to be dropped. KeyError: unknown name."""
        self._owner.check()
        if (there := self.opened(name)) is not None:
            raise UserError(f"the sequence named {name!r} is open already, as {there}")
        with self._held(name):
            sequence = self._enter(sessions.load(self._next_id, name, self._cards, self.layout, self._buffer))
        touch([self._sequences[sequence]])
        return sequence

    def opened(self, name: str) -> int | None:
        """The open sequence of this name."""
        return next((state.id for state in self._sequences.values() if state.name == name), None)

    def names(self) -> tuple[str, ...]:
        """Names of all sequences on the volumes."""
        self._owner.check()
        return tuple(sorted({name for card in self._cards for name in card.volume.index.names()}))

    def used_nbytes(self, name: str) -> int:
        """What a named sequence takes on all volumes as of its last flush; shared pages count in full."""
        self._owner.check()
        found = [card.volume.index.find(name) for card in self._cards]
        return sum(len(r.places) * len(r.heads) * self.layout.slot_nbytes for r in found if r is not None)

    def delete(self, name: str) -> None:
        """Removes a named sequence, which must not be open, from the volumes."""
        self._owner.check()
        if self.opened(name) is not None:
            raise UserError(f"the sequence named {name!r} is open; free it first")
        sessions.delete(name, self._cards)

    def info(self, sequence: int) -> SequenceInfo:
        state = self._state(sequence)
        return SequenceInfo(state.id, state.name, state.tokens, state.dropped_tokens, state.reason)

    def length(self, sequence: int, layer: int | None = None) -> int:
        """Tokens that the layer holds; without one, tokens that every layer holds."""
        state = self._state(sequence)
        if layer is None:
            return state.tokens
        checks.check_layer(layer, self.layout)
        return state.tail.end[layer]

    def append(
        self,
        layer: int,
        sequences: Sequence[int],
        k: Halves,
        v: Halves,
        valid: NDArray[np.bool_] | None = None,
    ) -> None:
        """Stores k and v, float16 [batch, kv_heads, n, head_size], but for rows with `valid` [batch, n] False.

        For a layout of bfloat16 they are uint16, the elements' bits; so is what `read` gives.
        """
        checks.check_layer(layer, self.layout)
        states = self._batch(sequences)
        checks.check_kv(k, v, len(states), self.layout)
        picks = checks.picks_of(valid, len(states), k.shape[2])
        work = self._new_rows(layer, states, k, v, picks)
        for state in states:
            self._spiller.drain(state)
        spill.append(layer, [(state, *rows) for state, rows in zip(states, work, strict=True)], self.layout)

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
        checks.check_layer(layer, self.layout)
        checks.check_scale(scale, window)
        checks.check_attends(self.layout)
        states = self._batch(sequences)
        if (k is None) != (v is None):
            raise UserError("k and v are given together or not at all")
        if k is not None and v is not None:
            checks.check_kv(k, v, len(states), self.layout)
        checks.check_q(q, len(states), self.layout, None if k is None else k.shape[2])
        batch, n = len(states), q.shape[2]
        picks = checks.picks_of(valid, batch, n)
        rows: Sequence[tuple[Halves | None, Halves | None]] = [(None, None)] * batch
        if k is not None and v is not None:
            rows = self._prepare(layer, states, k, v, picks)
        grid = (batch, self.layout.kv_heads, self.layout.group, n, self.layout.head_size)
        by_token = np.ascontiguousarray(q.reshape(grid).transpose(0, 1, 3, 2, 4), np.float32)
        queries = [
            Query(state, i, chosen, by_token[i] if chosen is None else by_token[i][:, chosen], *new)
            for i, (state, chosen, new) in enumerate(zip(states, picks, rows, strict=True))
        ]
        if self._timeline and self._returned_s:
            self._timeline.add(-1, HOST, self._returned_s, self._timeline.clock())
        guesses = self._guesses(Call(layer, tuple(sequences), window))
        result = attend(
            layer, queries, (batch, n), self._cards, self.layout, scale=scale, window=window, guesses=guesses
        )
        for query in queries:
            self._account(layer, query)
        if self._timeline:
            self._returned_s = self._timeline.clock()
        return result

    def read(self, layer: int, sequence: int) -> tuple[Halves, Halves]:
        """All K and V of a layer, [kv_heads, length, head_size], read back from volumes and write buffer; counted."""
        checks.check_layer(layer, self.layout)
        state = self._state(sequence)
        rows = state.read(layer, 0, state.tail.end[layer], self.layout.unit_tokens)
        d = self.layout.head_size
        words: Any = rows.view(np.uint16) if self.layout.dtype == "bfloat16" else rows
        return words[:, 0, :, :d], words[:, 1, :, :d]

    def crop(self, sequence: int, length: int) -> None:
        """Drops all tokens from `length` on, in every layer."""
        state = self._state(sequence)
        if not 0 <= length <= max(state.tail.end):
            raise UserError(f"sequence {sequence} cannot be cropped to {length}; it holds {max(state.tail.end)} tokens")
        self._spiller.settle(state)
        sessions.crop(state, length, self.layout)

    def flush(self) -> None:
        """Every complete token of every named sequence is on flash, and in the index, when this returns.

        NotStored names the sequences and tokens that could not be stored; all others are, and it may be called again.
        """
        self._owner.check()
        self._flush(list(self._sequences.values()))

    def free(self, sequence: int) -> None:
        """Ends the id and gives its memory back. A named sequence is flushed and stays on the volumes; another one's
        space there is free again."""
        state = self._state(sequence)
        self._flush_named([sequence])
        touch([state])
        self._release(state)

    def close(self) -> None:
        """Flushes named sequences, closes cards and volumes, whatever fails. May be called again.

        NotStored says what could not be stored. In a forked process, which owns nothing of it, this does nothing.
        """
        self._dropped.detach()
        if not self._owner.here:
            return
        try:
            self.flush()
            touch(self._sequences.values())
        finally:
            self._close_cards()

    def _close_cards(self) -> None:
        last = self.stats()
        self._sequences.clear()
        try:
            self._resources.close()
        finally:
            cards = [
                replace(stats, index_write_nbytes=card.volume.index_write_nbytes)
                for stats, card in zip(last.cards, self._cards, strict=True)
            ]
            self._last = replace(last, cards=tuple(cards))

    def stats(self) -> StoreStats:
        """Counters as they are; once the store is closed as they were at its end, what closing wrote to the indexes
        included."""
        if self._last is not None:
            return self._last
        states = list(self._sequences.values())
        return StoreStats(
            cards=tuple(card_stats(number, card, states) for number, card in enumerate(self._cards)),
            formula_link_nbytes=self._formula_nbytes,
            host_offload_nbytes=self._offload_nbytes,
            payload_written_nbytes=sum(card.payload_written_nbytes for card in self._cards),
            write_buffer_nbytes=self._buffer.nbytes,
            write_buffer_peak_nbytes=self._buffer.peak_nbytes,
            read_back_nbytes=sum(card.read_back_nbytes for card in self._cards),
            write_buffer_limit_nbytes=self._buffer.limit_nbytes,
            evicted=len(self._eviction.evicted) if self._eviction else 0,
            **self._spiller.figures(),
        )

    def _open_names(self) -> set[str]:
        return self._making | {state.name for state in self._sequences.values() if state.name is not None}

    @contextmanager
    def _held(self, name: str) -> Iterator[None]:
        """The name is as good as open."""
        self._making.add(name)
        try:
            yield
        finally:
            self._making.discard(name)

    def _check_new(self, name: str) -> None:
        checks.check_name(name)
        if any(card.volume.index.find(name) for card in self._cards):
            raise UserError(f"a sequence named {name!r} exists; open_sequence opens it")

    def _enter(self, state: SequenceState) -> int:
        self._sequences[state.id] = state
        self._next_id = state.id + 1
        return state.id

    def _state(self, sequence: int) -> SequenceState:
        self._owner.check()
        try:
            return self._sequences[sequence]
        except KeyError:
            raise KeyError(f"sequence {sequence} does not exist or was freed") from None

    def _batch(self, sequences: Sequence[int]) -> list[SequenceState]:
        states = [self._state(s) for s in sequences]
        if len({state.id for state in states}) != len(states):
            raise UserError(f"a sequence stands twice in {list(sequences)}")
        return states

    def _new_rows(
        self,
        layer: int,
        states: Sequence[SequenceState],
        k: Halves,
        v: Halves,
        picks: Sequence[NDArray[np.intp] | None],
    ) -> list[tuple[Halves, Halves]]:
        """The rows that count, per sequence, all of them checked."""
        rows = []
        for i, (state, chosen) in enumerate(zip(states, picks, strict=True)):
            new_k, new_v = checks.pick(k[i], chosen), checks.pick(v[i], chosen)
            new_k, new_v = new_k.view(np.float16), new_v.view(np.float16)  # 16-bit words, whatever they mean
            checks.check_finite(new_k, new_v, layer, state.id, self.layout)
            checks.check_length(state.tail.end[layer] + new_k.shape[1], state.id)
            rows.append((new_k, new_v))
        return rows

    def _prepare(
        self,
        layer: int,
        states: Sequence[SequenceState],
        k: Halves,
        v: Halves,
        picks: Sequence[NDArray[np.intp] | None],
    ) -> list[tuple[Halves, Halves]]:
        """Puts new rows behind the live ones of the write buffer; `_account` makes them live."""
        rows = self._new_rows(layer, states, k, v, picks)
        for state, (new_k, new_v) in zip(states, rows, strict=True):
            self._spiller.before_rows(state, layer)
            spill.make_room(state, layer, new_k.shape[1])
            state.tail.put(layer, state.tail.row(layer, state.tail.end[layer]), new_k, new_v)
        return rows

    def _guesses(self, call: Call) -> list[list[Wave]]:
        """What the next call will probably read, per card."""
        self._forecast.saw(call)
        after = self._forecast.after(call)
        states = [self._sequences[s] for s in after.sequences if s in self._sequences]
        return guess(after.layer, states, self._cards, after.window, self.layout)

    def _account(self, layer: int, query: Query) -> None:
        tail = query.state.tail
        new = 0 if query.k is None else query.tokens
        if new:
            tail.settle(layer, tail.stored[layer], tail.end[layer] + new)
        if query.tokens and tail.end[layer]:
            self._formula_nbytes += link_nbytes(self.layout, query.tokens, new)
            self._offload_nbytes += offload_nbytes(self.layout, tail.end[layer])

    def _flush(self, states: Sequence[SequenceState]) -> None:
        sessions.flush_all(states, self.layout, self._spiller.settle)

    def _flush_named(self, sequences: Sequence[int]) -> None:
        self._flush([state for state in map(self._state, sequences) if state.name is not None])

    def _release(self, state: SequenceState) -> None:
        self._spiller.abandon(state)
        for part in state.parts:
            if state.name is not None:
                part.card.trim(part.data, -(-part.data.committed // self.layout.extent_tokens))
            part.card.remove(part.data, keep_pages=state.name is not None)
        state.tail.close()
        self._forecast.forget()
        del self._sequences[state.id]
