# SPDX-License-Identifier: Apache-2.0
"""Pairs are spread evenly and the choice depends on the load alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.placement import place


@given(cards=st.integers(1, 6), kv_heads=st.integers(1, 16), sequences=st.integers(1, 8))
def test_cards_never_differ_by_more_than_one_pair(cards: int, kv_heads: int, sequences: int) -> None:
    loads = [0] * cards
    for _ in range(sequences):
        heads = place(loads, kv_heads)
        assert sorted(h for card in heads for h in card) == list(range(kv_heads))
        assert all(list(card) == sorted(card) for card in heads)
        loads = [n + len(card) for n, card in zip(loads, heads, strict=True)]
        assert max(loads) - min(loads) <= 1


def test_the_emptiest_card_comes_first() -> None:
    assert place([4, 0, 1], 3) == ((), (0, 1), (2,))


def test_no_card_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one card"):
        place([], 3)
