# SPDX-License-Identifier: Apache-2.0
"""Pairs are spread evenly and the choice depends on the load alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.pages import WHOLE
from nearkv.placement import place, shares


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


@pytest.mark.parametrize(
    ("cards", "heads", "stripes"), [(4, 3, 4), (2, 1, 2), (5, 2, 5), (8, 3, 8), (6, 3, 2), (16, 1, 8)]
)
def test_fewer_pairs_than_cards_are_split_by_tokens(cards: int, heads: int, stripes: int) -> None:
    found = shares([0] * cards, heads)
    assert {share.stripe.of for share in found} == {stripes}
    pairs = sorted((share.stripe.first, head) for share in found for head in share.heads)
    assert pairs == [(first, head) for first in range(stripes) for head in range(heads)]
    loads = [sum(len(share.heads) for share in found if share.card == card) for card in range(cards)]
    assert max(loads) - min(loads) <= 1


@pytest.mark.parametrize(("loads", "split"), [([1.0, 1.0, 1.0, 0.0], True), ([0.0] * 3, True), ([0.0] * 9, False)])
def test_pairs_stay_whole_where_there_are_enough_or_a_name_wants_it(loads: list[float], split: bool) -> None:
    found = shares(loads, 3, split=split)
    assert all(share.stripe == WHOLE for share in found)
    assert sorted(head for share in found for head in share.heads) == [0, 1, 2]


@pytest.mark.parametrize(("cards", "batch", "most"), [(16, 16, 8), (64, 16, 2), (16, 2, 1), (64, 7, 7 / 8)])
def test_a_batch_is_spread_as_a_whole(cards: int, batch: int, most: float) -> None:
    """Sequences of 8 heads that come one after another: those that come first are not split as if they were alone."""
    loads = [0.0] * cards
    for more in reversed(range(batch)):
        for share in shares(loads, 8, more=more):
            assert share.stripe == WHOLE or batch * 8 < cards
            loads[share.card] += len(share.heads) / share.stripe.of
    assert max(loads) == most
