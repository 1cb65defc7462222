# SPDX-License-Identifier: Apache-2.0
"""One attend call: every card does its part at the same time, results are put together. Stores nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import numpy as np
from nearkv_driver.commands import AttendResult, RawResult, Result
from nearkv_driver.errors import DriverError, OutOfDeviceMemory
from nearkv_driver.regmap import EMPTY_T
from nearkv_driver.work_threads import Call
from numpy.typing import NDArray

from nearkv.card_run import CardRun, Done, Stop, Stopped, Work
from nearkv.card_store import CardStore
from nearkv.fetches import Fetch, Wave
from nearkv.jobs import Attention, Entry
from nearkv.layout import ModelLayout
from nearkv.merge import RawState, merge_states, outputs, round_state
from nearkv.query import Query, sources
from nearkv.sequence import SequenceState
from nearkv.waves import cut, reach

__all__ = ["Query", "attend", "guess"]


def attend(
    layer: int,
    queries: Sequence[Query],
    shape: tuple[int, int],
    cards: Sequence[CardStore],
    layout: ModelLayout,
    *,
    scale: float,
    window: int,
    guesses: Sequence[Sequence[Wave]] = (),
    stop: Stop,
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """(out [batch, query_heads, n, head_size], lse [batch, query_heads, n]) for `shape` = (batch, n).

    `guesses` are waves per card that may be wanted by the next call; they are read when nothing else is to be read.
    """
    call = Attention(layout, layer, scale, window)
    done = _run(call, queries, cards, guesses, stop)
    batch, n = shape
    rows = (batch, layout.kv_heads, n, layout.group)
    o = np.zeros((*rows, layout.head_size), np.float32)
    l = np.zeros(rows, np.float32)  # noqa: E741  the name that the arithmetic gives it
    t = np.full(rows, EMPTY_T, np.int32)
    split: dict[tuple[int, int], list[tuple[Entry, RawResult]]] = defaultdict(list)
    for entry, result in done:
        if isinstance(result, RawResult):
            split[entry.source.query.index, entry.head].append((entry, result))
        else:
            _place(entry, result, layout, o, l, t)
    for parts in split.values():
        _place(parts[0][0], _merged([result for _, result in parts]), layout, o, l, t)
    out, lse = outputs(o, l, t)
    heads = (batch, layout.query_heads, n)
    return (
        out.transpose(0, 1, 3, 2, 4).reshape(*heads, layout.head_size),
        lse.transpose(0, 1, 3, 2).reshape(heads),
    )


def guess(
    layer: int, states: Sequence[SequenceState], cards: Sequence[CardStore], window: int, layout: ModelLayout
) -> list[list[Wave]]:
    """Per card the first waves of a call with one new token for each sequence, as things are now."""
    fetches: list[list[tuple[Fetch, ...]]] = [[] for _ in cards]
    room = [card.ring.pages.nbytes for card in cards]
    for state in states:
        for part in state.parts:
            if room[part.number] > 0:
                limit = state.tail.end[layer] + 1
                some = reach(state, part, layer, limit, window, layout, room[part.number]).fetches
                fetches[part.number].append(some)
                room[part.number] -= sum(fetch.nbytes(layout) for fetch in some)
    return [
        [step.wave for step in cut(some, card.options.wave_nbytes, layout)]
        for card, some in zip(cards, fetches, strict=True)
    ]


def _place(
    entry: Entry,
    result: AttendResult,
    layout: ModelLayout,
    o: NDArray[np.float32],
    l: NDArray[np.float32],  # noqa: E741
    t: NDArray[np.int32],
) -> None:
    query = entry.source.query
    at = (query.index, entry.head, slice(None) if query.picks is None else query.picks)
    grid = (query.tokens, layout.group)
    o[at] = result.o.reshape(*grid, -1)
    l[at] = result.l.reshape(grid)
    t[at] = result.t.reshape(grid)


def _merged(parts: Sequence[RawResult]) -> AttendResult:
    """What one card that had all tokens would have given."""
    state = merge_states([RawState(part.o, part.l, part.t) for part in parts])
    o, l = round_state(state)  # noqa: E741
    return AttendResult(o, l, state.t, any(part.saturated for part in parts), sum(part.beats for part in parts), 0)


def _run(
    call: Attention, queries: Sequence[Query], cards: Sequence[CardStore], guesses: Sequence[Sequence[Wave]], stop: Stop
) -> list[tuple[Entry, Result]]:
    """A card that has no room for its lists lets an extent go and the call begins again."""
    while True:
        try:
            return _run_once(call, queries, cards, guesses, stop)
        except OutOfDeviceMemory:
            evicted = [card.residency.evict() for card in cards]
            if not any(evicted):
                raise
            stop.failed = False


def _run_once(
    call: Attention, queries: Sequence[Query], cards: Sequence[CardStore], guesses: Sequence[Sequence[Wave]], stop: Stop
) -> list[tuple[Entry, Result]]:
    todo: list[tuple[CardStore, CardRun]] = []
    found = sources(call.layer, queries, len(cards), call.window, call.layout)
    for number, (card, some) in enumerate(zip(cards, found, strict=True)):
        steps = cut([source.reach.fetches for source in some], card.options.wave_nbytes, call.layout)
        later = guesses[number] if guesses else ()
        if some or later or not card.reader.idle:
            todo.append((card, CardRun(card, call, Work(some, steps, later), stop)))
    running: list[tuple[CardStore, Call[Done]]] = []
    try:
        for card, run in todo:
            running.append((card, card.thread.give(partial(_guarded, run, stop))))
    except BaseException:
        # A card has no thread: others end after the list in hand, and nobody uses them before that.
        stop.failed = True
        _failure(running)
        raise
    failure = _failure(running)
    if failure is None:
        return [pair for _, work in running for pair in work.wait()]
    try:
        raise failure
    finally:
        running.clear()  # they have the error, whose traceback has this frame: cards would live on in a circle
        del failure


def _guarded(run: CardRun, stop: Stop) -> Done:
    try:
        return run.run()
    except BaseException:
        stop.failed = True
        raise


def _failure(running: Sequence[tuple[CardStore, Call[Done]]]) -> BaseException | None:
    """Waits for all. The first error names its card and the errors of others; Stopped where nothing else was wrong."""
    errors: list[BaseException] = []
    stopped: Stopped | None = None
    for card, work in running:
        error = work.error()
        if isinstance(error, Stopped):
            stopped = error
        if error is None or isinstance(error, Stopped):
            continue
        if not (isinstance(error, DriverError) and error.card):
            error.add_note(f"on card {card.device.url}")
        errors.append(error)
    for other in errors[1:]:
        errors[0].add_note(f"also: {other}")
    return errors[0] if errors else stopped
