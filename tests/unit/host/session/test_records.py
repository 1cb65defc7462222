# SPDX-License-Identifier: Apache-2.0
"""Records of a journal: round trip, what may follow what, and that no payload does more than be refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.session.frames import Frame
from nearkv.session.records import (
    Adopted,
    Crop,
    Header,
    JournalInvalid,
    Mark,
    Prefill,
    Prompt,
    Record,
    Sampling,
    Token,
    Turn,
    TurnEnd,
    decode,
    encode,
    replay,
)

HEADER = Header("trip", "default", "0123456789abcdef", "tiny", "2026-01-02T03:04:05Z")
TOKENS = st.integers(0, 2**32 - 1)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.just(HEADER),
    st.builds(
        Turn,
        st.builds(
            Sampling,
            temperature=st.floats(0, 100),
            top_k=st.integers(0, 1000),
            top_p=st.floats(0, 1, exclude_min=True),
            seed=st.integers(0, 2**63 - 1),
        ),
        st.integers(1, 4096),
        st.integers(0, 4096),
    ),
    st.builds(Prompt, st.lists(TOKENS, min_size=1, max_size=20).map(tuple)),
    st.builds(Token, TOKENS),
    st.builds(TurnEnd, st.sampled_from(["end", "length", "cut"])),
    st.builds(Crop, st.integers(0, 2**40)),
    st.builds(Adopted, st.integers(0, 2**40)),
    st.just(Mark()),
)


@given(RECORDS)
def test_round_trip(record: Record) -> None:
    kind, payload = encode(record)
    assert decode(Frame(kind, 0, 0, payload, 0)) == record


@given(st.integers(0, 255), st.binary(max_size=60))
def test_any_payload_is_a_record_or_refused(kind: int, payload: bytes) -> None:
    try:
        record = decode(Frame(kind, 3, 0, payload, 0))
    except JournalInvalid:
        return
    assert decode(Frame(*encode_frame(record))) == record


@given(
    st.dictionaries(
        st.sampled_from(["name", "tenant", "session", "model", "created", "format", "x"]),
        st.none() | st.integers() | st.text(max_size=4),
    )
)
def test_a_header_with_other_values_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(JournalInvalid):
        decode(Frame(1, 0, 0, json.dumps(values | {"model": 7}).encode(), 0))


def test_a_newer_format_is_named() -> None:
    payload = encode(HEADER)[1].replace(b'"format":1', b'"format":2')
    with pytest.raises(JournalInvalid, match=r"format 2; this version reads 1"):
        decode(Frame(1, 0, 0, payload, 0))


def encode_frame(record: Record) -> tuple[int, int, int, bytes, int]:
    kind, payload = encode(record)
    return kind, 3, 0, payload, 0


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_k": True},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"seed": -1},
        {"seed": 2**63},
        {"temperature": True},
    ],
    ids=str,
)
def test_sampling_names_what_is_out_of_range(values: dict[str, object]) -> None:
    (name,) = values
    with pytest.raises(ValueError, match=f"{name} = "):
        Sampling(**values)  # type: ignore[arg-type]


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


def test_a_header_of_the_first_journals_has_no_weights() -> None:
    kind, payload = encode(Header("a", "t", "0", "m", "now", weights="ab"))
    old = {name: value for name, value in json.loads(payload).items() if name != "weights"}
    assert decode(Frame(kind, 0, 0, json.dumps(old).encode(), 0)) == Header("a", "t", "0", "m", "now")
