# SPDX-License-Identifier: Apache-2.0
"""Token numbers of rows: round trip, what is unknown, and what two of them have alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.errors import UserError
from nearkv.token_ids import agreed, check_ids, common, cut, pack, unpack

KNOWN = st.lists(st.integers(0, 2**32 - 1), max_size=9)
SOME = st.lists(st.none() | st.integers(0, 3), max_size=9)


@given(KNOWN, st.integers(0, 9))
def test_round_trip_and_a_shorter_one(ids: list[int], length: int) -> None:
    blob = pack(ids, 0, len(ids))
    assert unpack(blob, len(ids)) == ids
    assert unpack(cut(blob, length), min(length, len(ids))) == ids[:length]


def test_rows_of_which_one_is_unknown_are_unknown() -> None:
    assert pack([1, None, 3], 0, 3) is None
    assert pack([1, None, 3], 2, 3) == b"\3\0\0\0"
    assert pack([1], 0, 2) is None
    assert unpack(None, 2) == [None, None]
    assert cut(None, 1) is None


@given(SOME, SOME)
def test_what_agrees_differs_nowhere_and_no_more_does(a: list[int | None], b: list[int | None]) -> None:
    both = agreed([a, b])
    for i, token in enumerate(both):
        assert {a[i], b[i]} - {None} == ({token} - {None})
    end = len(both)
    if end < min(len(a), len(b)):
        assert None not in (a[end], b[end])
        assert a[end] != b[end]


@pytest.mark.parametrize(
    ("ids", "tokens", "wanted"),
    [([], [1], 0), ([1, 2], [1, 2, 3], 2), ([1, 2], [1, 3], 1), ([1, 2], [1], 1), ([None, 2, None], [9, 2], 3)],
)
def test_what_rows_and_tokens_have_alike(ids: list[int | None], tokens: list[int], wanted: int) -> None:
    assert common(ids, tokens) == wanted


@pytest.mark.parametrize("token", [-1, 2**32, True, 1.0, None], ids=str)
def test_what_is_no_token_is_refused(token: int) -> None:
    with pytest.raises(UserError, match="whole numbers below"):
        check_ids([0, token])
