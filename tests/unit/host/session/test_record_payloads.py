# SPDX-License-Identifier: Apache-2.0
"""Records as bytes: round trip, and that no payload does more than be refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.session.frames import Frame
from nearkv.session.record_payloads import decode, encode
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


@pytest.mark.parametrize("more", [b"", b',"more":7'])
def test_a_newer_format_is_named(more: bytes) -> None:
    payload = encode(HEADER)[1].replace(b'"format":1', b'"format":2' + more)
    with pytest.raises(JournalInvalid, match=r"format 2; this version reads 1"):
        decode(Frame(1, 0, 0, payload, 0))


def encode_frame(record: Record) -> tuple[int, int, int, bytes, int]:
    kind, payload = encode(record)
    return kind, 3, 0, payload, 0


def test_a_header_of_the_first_journals_has_no_weights() -> None:
    kind, payload = encode(Header("a", "t", "0", "m", "now", weights="ab"))
    old = {name: value for name, value in json.loads(payload).items() if name != "weights"}
    assert decode(Frame(kind, 0, 0, json.dumps(old).encode(), 0)) == Header("a", "t", "0", "m", "now")
