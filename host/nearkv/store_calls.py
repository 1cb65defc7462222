# SPDX-License-Identifier: Apache-2.0
"""The calls that move rows of open sequences, `append`, `attend` and `read`: arguments checked, rows put where they
belong, what the formulas count. Opens and frees no sequence; the attention itself is `attend_call`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkv import checks, spill
from nearkv.attend_call import Query, attend, guess
from nearkv.card_run import Stop
from nearkv.card_store import CardStore
from nearkv.errors import UserError
from nearkv.fetches import Wave
from nearkv.forecast import Call, Forecast
from nearkv.layout import ModelLayout
from nearkv.open_sequences import OpenSequences
from nearkv.sequence import SequenceState
from nearkv.spiller import Spiller
from nearkv.stats import link_nbytes, offload_nbytes
from nearkv.timeline import HOST, Timeline

Halves = NDArray[np.float16]
Picks = Sequence[NDArray[np.intp] | None]


class StoreCalls:
    """Of one store. `formula_nbytes` and `offload_nbytes` are sums over attend calls (`stats`)."""

    def __init__(
        self,
        layout: ModelLayout,
        cards: Sequence[CardStore],
        sequences: OpenSequences,
        spiller: Spiller,
        timeline: Timeline | None,
    ) -> None:
        self._layout, self._cards, self._sequences, self._spiller = layout, tuple(cards), sequences, spiller
        self.forecast = Forecast(layout.layers)
        self._timeline, self._returned_s = timeline, 0.0
        self.formula_nbytes = self.offload_nbytes = 0

    def append(
        self, layer: int, sequences: Sequence[int], k: Halves, v: Halves, valid: NDArray[np.bool_] | None
    ) -> None:
        """As `KVStore.append`."""
        checks.check_layer(layer, self._layout)
        states = self._sequences.batch(sequences)
        checks.check_kv(k, v, len(states), self._layout)
        picks = checks.picks_of(valid, len(states), k.shape[2])
        work = self._new_rows(layer, states, k, v, picks)
        for state in states:
            self._spiller.drain(state)
        spill.append(layer, [(state, *rows) for state, rows in zip(states, work, strict=True)], self._layout)

    def attend(
        self,
        layer: int,
        sequences: Sequence[int],
        q: NDArray[np.float32],
        k: Halves | None,
        v: Halves | None,
        scale: float,
        window: int,
        valid: NDArray[np.bool_] | None,
        stop: Stop,
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """As `KVStore.attend`; `stop` may be told to stop by another thread. Stopped is raised then, or the result is
        there after all."""
        checks.check_layer(layer, self._layout)
        checks.check_scale(scale, window)
        checks.check_attends(self._layout)
        states = self._sequences.batch(sequences)
        if (k is None) != (v is None):
            raise UserError("k and v are given together or not at all")
        if k is not None and v is not None:
            checks.check_kv(k, v, len(states), self._layout)
        checks.check_q(q, len(states), self._layout, None if k is None else k.shape[2])
        batch, n = len(states), q.shape[2]
        picks = checks.picks_of(valid, batch, n)
        rows: Sequence[tuple[Halves | None, Halves | None]] = [(None, None)] * batch
        if k is not None and v is not None:
            rows = self._prepare(layer, states, k, v, picks)
        grid = (batch, self._layout.kv_heads, self._layout.group, n, self._layout.head_size)
        by_token = np.ascontiguousarray(q.reshape(grid).transpose(0, 1, 3, 2, 4), np.float32)
        queries = [
            Query(state, i, chosen, by_token[i] if chosen is None else by_token[i][:, chosen], *new)
            for i, (state, chosen, new) in enumerate(zip(states, picks, rows, strict=True))
        ]
        if self._timeline and self._returned_s:
            self._timeline.add(-1, HOST, self._returned_s, self._timeline.clock())
        guesses = self._guesses(Call(layer, tuple(sequences), window))
        shape, cards, layout = (batch, n), self._cards, self._layout
        result = attend(layer, queries, shape, cards, layout, scale=scale, window=window, guesses=guesses, stop=stop)
        for query in queries:
            self._account(layer, query)
        if self._timeline:
            self._returned_s = self._timeline.clock()
        return result

    def read(self, layer: int, sequence: int) -> tuple[Halves, Halves]:
        """As `KVStore.read`."""
        checks.check_layer(layer, self._layout)
        state = self._sequences[sequence]
        rows = state.read(layer, 0, state.tail.end[layer], self._layout.unit_tokens)
        d = self._layout.head_size
        words: Any = rows.view(np.uint16) if self._layout.dtype == "bfloat16" else rows
        return words[:, 0, :, :d], words[:, 1, :, :d]

    def _new_rows(
        self,
        layer: int,
        states: Sequence[SequenceState],
        k: Halves,
        v: Halves,
        picks: Picks,
    ) -> list[tuple[Halves, Halves]]:
        """The rows that count, per sequence, all of them checked."""
        rows = []
        for i, (state, chosen) in enumerate(zip(states, picks, strict=True)):
            new_k, new_v = checks.pick(k[i], chosen), checks.pick(v[i], chosen)
            new_k, new_v = new_k.view(np.float16), new_v.view(np.float16)  # 16-bit words, whatever they mean
            checks.check_finite(new_k, new_v, layer, state.id, self._layout)
            checks.check_length(state.tail.end[layer] + new_k.shape[1], state.id)
            rows.append((new_k, new_v))
        return rows

    def _prepare(
        self,
        layer: int,
        states: Sequence[SequenceState],
        k: Halves,
        v: Halves,
        picks: Picks,
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
        self.forecast.saw(call)
        after = self.forecast.after(call)
        states = [self._sequences[s] for s in after.sequences if s in self._sequences]
        return guess(after.layer, states, self._cards, after.window, self._layout)

    def _account(self, layer: int, query: Query) -> None:
        tail = query.state.tail
        new = 0 if query.k is None else query.tokens
        if new:
            tail.settle(layer, tail.stored[layer], tail.end[layer] + new)
        if query.tokens and tail.end[layer]:
            self.formula_nbytes += link_nbytes(self._layout, query.tokens, new)
            self.offload_nbytes += offload_nbytes(self._layout, tail.end[layer])
