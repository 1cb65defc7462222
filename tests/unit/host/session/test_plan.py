# SPDX-License-Identifier: Apache-2.0
"""What is computed again is computed in the pieces in which it was computed before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from nearkv.session.plan import Forward, Plan, plan
from nearkv.session.records import Adopted, Crop, Header, Prompt, Record, Sampling, Token, Turn, TurnEnd
from nearkv.session.state import SessionState, replay

HEADER = Header("trip", "default", "0123456789abcdef", "tiny", "2026-01-02T03:04:05Z")

# (tokens of the prompt, chunk, generated tokens, cut to this share at the end)
_TURNS = st.lists(
    st.tuples(st.integers(1, 12), st.integers(0, 5), st.integers(0, 6), st.none() | st.floats(0, 1)), max_size=4
)


def _run(turns: list[tuple[int, int, int, float | None]]) -> tuple[list[Record], list[Forward]]:
    """The records of a session, and for each token whose K and V it then has the forward that gave them."""
    records: list[Record] = [HEADER]
    cache: list[Forward] = []
    tokens = 0
    for prompt, chunk, generated, cut in turns:
        records += [Turn(Sampling(), 9, chunk), Prompt(tuple(range(prompt)))]
        tokens += prompt
        if generated:
            first, end = len(cache), tokens
            while first < end:
                last = min(end, first + (chunk or end - first))
                cache += [Forward(first, last)] * (last - first)
                first = last
        for i in range(generated):
            if i:
                cache.append(Forward(tokens - 1, tokens))
            records.append(Token(i))
            tokens += 1
        if generated:
            records.append(TurnEnd("length"))
        if cut is not None or not generated:
            tokens = int((1.0 if cut is None else cut) * tokens)
            records.append(Crop(tokens))
            # What a crop leaves of a prefill is computed without the tokens that are gone.
            cache = [_cut(f, tokens) for f in cache[:tokens]]
    return records, cache


def _cut(forward: Forward, length: int) -> Forward:
    return Forward(forward.first, min(forward.end, length))


@given(_TURNS, st.data())
def test_what_is_computed_again_is_computed_in_the_same_pieces(
    turns: list[tuple[int, int, int, float | None]], data: st.DataObject
) -> None:
    records, cache = _run(turns)
    state = replay(records)
    assert state.cached == len(cache)
    stored = data.draw(st.integers(0, len(cache) + 5))
    found = plan(state, stored)
    assert found.keep <= min(stored, len(cache))
    again = cache[: found.keep]
    for forward in found.forwards:
        assert forward.first == len(again)
        again += [forward] * (forward.end - forward.first)
    assert again == cache


def _state(*records: Record) -> SessionState:
    return replay([HEADER, *records])


def test_shared_tokens_whose_prompt_never_came_are_dropped() -> None:
    assert plan(_state(Turn(Sampling(), 9), Adopted(128)), 128) == Plan(0, ())


def test_a_tail_is_computed_token_by_token() -> None:
    state = _state(Turn(Sampling(), 9), Prompt((1, 2, 3)), *(Token(i) for i in range(5)))
    assert plan(state, 5) == Plan(5, (Forward(5, 6), Forward(6, 7)))
    assert plan(state, 7).forwards == ()


def test_a_prefill_of_which_something_is_missing_is_computed_whole() -> None:
    state = _state(Turn(Sampling(), 9), Prompt((1, 2, 3)), Token(4), Token(5))
    found = plan(state, 2)
    assert (found.keep, found.forwards) == (0, (Forward(0, 3), Forward(3, 4)))


def test_more_than_the_journal_knows_is_dropped() -> None:
    state = _state(Turn(Sampling(), 9), Prompt((1, 2, 3)), Token(4))
    assert plan(state, 64) == plan(state, 3)
    assert plan(state, 64).keep == 3
