# SPDX-License-Identifier: Apache-2.0
"""What a session is after its records, and what may follow what."""

from __future__ import annotations

import pytest
from nearkv.session.records import (
    Adopted,
    Crop,
    Header,
    JournalInvalid,
    Mark,
    Prompt,
    Record,
    Sampling,
    Token,
    Turn,
    TurnEnd,
)
from nearkv.session.state import Prefill, replay

HEADER = Header("trip", "default", "0123456789abcdef", "tiny", "2026-01-02T03:04:05Z")


def test_two_turns() -> None:
    first, second = Turn(Sampling(), 9), Turn(Sampling(), 9, chunk=4)
    state = replay(
        [HEADER, first, Prompt((1, 2, 3)), Token(4), Token(5), TurnEnd("end"), second, Prompt((6, 7)), Token(8)]
    )
    assert state.tokens == [1, 2, 3, 4, 5, 6, 7, 8]
    # The step after token 5 never ran: the second prefill computes it with the new prompt.
    assert state.prefills == [Prefill(0, 3, 0), Prefill(4, 7, 4)]
    assert (state.cached, state.generated, state.turns) == (7, 1, 1)


def test_a_mark_changes_nothing_wherever_it_is() -> None:
    records: list[Record] = [HEADER, Turn(Sampling(), 9), Adopted(1), Prompt((1, 2)), Token(3), Crop(2)]
    for i in range(1, len(records) + 1):
        assert replay([*records[:i], Mark(), *records[i:]]) == replay(records)


def test_a_prompt_alone_has_computed_nothing() -> None:
    state = replay([HEADER, Turn(Sampling(), 9), Prompt((1, 2, 3))])
    assert (state.cached, state.generated, state.prompt_end, state.prefills) == (0, 0, 3, [])


def test_adopted_tokens_count_with_the_prompt_that_has_them() -> None:
    begun: list[Record] = [HEADER, Turn(Sampling(), 9), Adopted(3)]
    assert (replay(begun).cached, replay(begun).adopted) == (0, 0)
    state = replay([*begun, Prompt((1, 2, 3, 4))])
    assert (state.cached, state.adopted) == (3, 3)
    # Cut off before its prompt came, the next turn begins with nothing, and may be shorter.
    state = replay([*begun, TurnEnd("cut"), Turn(Sampling(), 9), Prompt((7, 8))])
    assert (state.tokens, state.cached, state.adopted) == ([7, 8], 0, 0)
    state = replay([*begun, Crop(0), Turn(Sampling(), 9), Prompt((7, 8))])
    assert (state.cached, state.adopted) == (0, 0)


def test_crop_inside_a_prefill_and_behind_it() -> None:
    records: list[Record] = [HEADER, Turn(Sampling(), 9), Prompt((1, 2, 3)), Token(4), Token(5), TurnEnd("length")]
    state = replay([*records, Crop(2)])
    assert (state.tokens, state.cached, state.prefills, state.turn) == ([1, 2], 2, [Prefill(0, 2, 0)], None)
    state = replay([*records, Crop(5)])
    assert (len(state.tokens), state.cached) == (5, 4)
    state = replay([*records, Crop(0)])
    assert (state.tokens, state.cached, state.prefills) == ([], 0, [])


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([Turn(Sampling(), 9)], "header"),
        ([HEADER, HEADER], "header"),
        ([HEADER, Prompt((1,))], "where no prompt can be"),
        ([HEADER, Token(1)], "before any prompt"),
        ([HEADER, Turn(Sampling(), 9), Token(1)], "before any prompt"),
        ([HEADER, Turn(Sampling(), 9), Turn(Sampling(), 9)], "under way"),
        ([HEADER, Turn(Sampling(), 9), Prompt((1,)), Prompt((2,))], "where no prompt can be"),
        ([HEADER, Turn(Sampling(), 9), Prompt((1,)), TurnEnd("end")], "without a token"),
        ([HEADER, TurnEnd("end")], "outside a turn"),
        ([HEADER, Turn(Sampling(), 9), Adopted(2), Prompt((1, 2))], "shorter than what it shares"),
        ([HEADER, Crop(1)], "with 0 tokens"),
        ([Mark(), HEADER], "header"),
    ],
)
def test_records_at_the_wrong_place(records: list[Record], text: str) -> None:
    with pytest.raises(JournalInvalid, match=text):
        replay(records)
