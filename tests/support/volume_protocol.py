# SPDX-License-Identifier: Apache-2.0
"""The order of writes of docs/volume-format.md as a small machine, explored in all interleavings. No real file.

One session on two cards with a writer thread each; a unit is two tokens. A page's content is the tuple of all tokens up
to its end, so a page of another past differs. `Rules` are the order; each of them can be broken, to see that it counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

CARDS = 2
UNIT = 2

Content = tuple[int, ...]
Step = tuple[object, ...]
Pages = tuple[tuple[str, Content], ...]  # place -> content, sorted


@dataclass(frozen=True)
class Rules:
    """As documented where all are True."""

    sync_before_index: bool = True
    journal_before_told: bool = True
    new_part_for_tail: bool = True
    crop_waits: bool = True
    journal_before_index: bool = True
    every: int = 1  # tokens between two syncs of the journal; 0: none for them alone


@dataclass(frozen=True)
class Card:
    """`loose`: written and not synced. `units` and `tail` are what the index names: (place, content)."""

    stored: Pages = ()
    loose: Pages = ()
    units: Pages = ()
    tail: tuple[str, Content] | None = None
    queue: tuple[Step, ...] = ()


@dataclass(frozen=True)
class State:
    at: int = 0
    cards: tuple[Card, ...] = (Card(), Card())
    journal: tuple[Step, ...] = ()
    loose_journal: tuple[Step, ...] = ()
    told: Content = ()
    written: tuple[int, ...] = ()  # cards whose part of the spill under way is synced


class Violation(AssertionError):
    """What a crash at some moment would leave breaks a promise; the text says which."""


def program(script: list[tuple[str, int]], rules: Rules) -> list[Step]:
    """The steps of the thread that runs the session: `say` a token each, `crop` to a length, `flush`."""
    steps: list[Step] = []
    tokens: Content = ()
    stored, part, waiting = 0, 0, 0
    first: list[Step] = [("sync journal",)] if rules.journal_before_index else []
    for what, value in script:
        if what == "say":
            if len(tokens) >= stored + UNIT:  # the K and V of the newest token are never there
                steps += [("wait",), *first, ("spill", tokens[: stored + UNIT])]
                stored += UNIT
            steps.append(("journal", value))
            tokens = (*tokens, value)
            waiting += 1
            if rules.every == 0 or waiting < rules.every:
                continue  # the user has the token, without the promise that it stays
            waiting = 0
            if rules.journal_before_told:
                steps += [("sync journal",), ("tell", tokens)]
            else:
                steps += [("tell", tokens), ("sync journal",)]
        elif what == "flush":
            known = tokens[:-1]
            if len(known) > stored:
                part = (part + 1) % 2 if rules.new_part_for_tail else 0
                steps += [("wait",), *first, *_tail(known, part, ("tail", (f"tail{part}", known)))]
        else:
            steps.append(("shorten", value))
            cut: list[Step] = [("wait",)] if rules.crop_waits else []
            if value < len(tokens) - 1:
                whole = min(stored, value // UNIT * UNIT)
                part = (part + 1) % 2 if rules.new_part_for_tail else 0
                tail = (f"tail{part}", tokens[:value]) if value > whole else None
                cut += _tail(tokens[:value], part, ("cut", whole, tail)) if tail else _cut(whole)
                stored = whole
            tokens, waiting = tokens[:value], 0
            steps += [*cut, ("crop", value), ("sync journal",)]
    return [*steps, ("wait",)]


def _tail(content: Content, part: int, index: Step) -> list[Step]:
    """A partial unit: on every card written and synced, then named."""
    pages: list[Step] = [s for c in range(CARDS) for s in (("page", c, f"tail{part}", content), ("sync", c))]
    return [*pages, *((index[0], c, *index[1:]) for c in range(CARDS))]


def _cut(whole: int) -> list[Step]:
    return [("cut", c, whole, None) for c in range(CARDS)]


def explore(script: list[tuple[str, int]], rules: Rules) -> int:
    """Visits every state that some interleaving reaches and every crash in it; how many states. Violation if one is
    bad."""
    steps = program(script, rules)
    seen, todo = {State()}, [State()]
    while todo:
        state = todo.pop()
        check(state)
        for after in _next(state, steps, rules):
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return len(seen)


def check(state: State) -> None:
    """Every crash: of each loose page the old, the new or neither content; of the loose journal any beginning."""
    for card in state.cards:
        for choice in itertools.product(("old", "new", "torn"), repeat=len(card.loose)):
            pages = dict(card.stored)
            for (place, content), which in zip(card.loose, choice, strict=True):
                if which != "old":
                    pages[place] = content if which == "new" else ()
            for place, content in (*card.units, *([card.tail] if card.tail else [])):
                if pages.get(place) != content:
                    raise Violation(f"the index names {place}, which may not hold {content}")
    kept = min((_tokens(card) for card in state.cards), key=len)
    for card in state.cards:
        if _tokens(card)[: len(kept)] != kept:
            raise Violation(f"the cards hold different tokens: {_tokens(card)} and {kept}")
    for count in range(len(state.loose_journal) + 1):
        tokens = _replay((*state.journal, *state.loose_journal[:count]))
        if tokens[: len(state.told)] != state.told:
            raise Violation(f"told were {state.told}, the journal has {tokens}")
        if kept != tokens[: len(kept)]:
            raise Violation(f"K and V of {kept} for the tokens {tokens}")


def _tokens(card: Card) -> Content:
    if card.tail:
        return card.tail[1]
    return card.units[-1][1] if card.units else ()


def _replay(journal: tuple[Step, ...]) -> Content:
    tokens: Content = ()
    for what, value in journal:
        assert isinstance(value, int)
        tokens = (*tokens, value) if what == "journal" else tokens[:value]
    return tokens


def _next(state: State, steps: list[Step], rules: Rules) -> Iterator[State]:
    """What one step of one thread makes of the state, for each thread that can go on."""
    if state.at < len(steps):
        step = steps[state.at]
        if step[0] != "wait" or not any(card.queue for card in state.cards):
            yield replace(_main(state, step, rules), at=state.at + 1)
    for number, card in enumerate(state.cards):
        if card.queue:
            after = _with(state, number, replace(card, queue=card.queue[1:]))
            yield _writer(after, number, card.queue[0])


def _main(state: State, step: Step, rules: Rules) -> State:
    match step:
        case ("journal" | "crop", _):
            return replace(state, loose_journal=(*state.loose_journal, step))
        case ("sync journal",):
            return replace(state, journal=(*state.journal, *state.loose_journal), loose_journal=())
        case ("tell", told):
            return replace(state, told=told)  # type: ignore[arg-type]
        case ("shorten", int(length)):  # the user wants no more than these
            return replace(state, told=state.told[:length])
        case ("spill", content):
            work: list[Step] = [("page", content), ("sync",), ("synced", content)]
            if not rules.sync_before_index:
                work = [work[0], work[2], work[1]]
            cards = tuple(replace(card, queue=(*card.queue, *work)) for card in state.cards)
            return replace(state, cards=cards, written=())
        case ("page", int(number), place, content):
            return _with(state, number, _write(state.cards[number], str(place), content))  # type: ignore[arg-type]
        case ("sync", int(number)):
            return _with(state, number, _sync(state.cards[number]))
        case ("tail", int(number), tail):
            return _with(state, number, replace(state.cards[number], tail=tail))  # type: ignore[arg-type]
        case ("cut", int(number), int(whole), tail):
            card = state.cards[number]
            cut = replace(card, units=card.units[: whole // UNIT], tail=tail)  # type: ignore[arg-type]
            return _with(state, number, cut)
    return state


def _writer(state: State, number: int, step: Step) -> State:
    card = state.cards[number]
    match step:
        case ("page", content):
            return _with(state, number, _write(card, _place(content), content))  # type: ignore[arg-type]
        case ("sync",):
            return _with(state, number, _sync(card))
        case ("synced", content):
            state = replace(state, written=(*state.written, number))
            if len(state.written) == CARDS:  # the last one does it for all
                queue = (*(("index", c, content) for c in range(CARDS)), *card.queue)
                return _with(state, number, replace(card, queue=queue))
        case ("index", int(other), content):
            return _index(state, other, content)  # type: ignore[arg-type]
    return state


def _index(state: State, number: int, content: Content) -> State:
    card = state.cards[number]
    return _with(state, number, replace(card, units=(*card.units, (_place(content), content)), tail=None))


def _place(content: object) -> str:
    assert isinstance(content, tuple)
    return f"unit{len(content) // UNIT}"


def _write(card: Card, place: str, content: Content) -> Card:
    return replace(card, loose=tuple(sorted({**dict(card.loose), place: content}.items())))


def _sync(card: Card) -> Card:
    return replace(card, stored=tuple(sorted({**dict(card.stored), **dict(card.loose)}.items())), loose=())


def _with(state: State, number: int, card: Card) -> State:
    return replace(state, cards=tuple(card if i == number else c for i, c in enumerate(state.cards)))
