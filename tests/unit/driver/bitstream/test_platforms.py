# SPDX-License-Identifier: Apache-2.0
"""The table of cards: every tag that it gives out is one that it takes, and no two units share more than they must."""

from __future__ import annotations

import pytest
from nearkv_driver.bitstream.platforms import Platform, load_platforms

CARDS = load_platforms()


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_every_unit_has_a_memory_that_a_drive_can_write(card: Platform) -> None:
    for cus in range(1, card.cus_max + 1):
        places = [card.place(card.tag_of(unit, cus)) for unit in range(cus)]
        assert all(place.memory.p2p and place.memory.name == card.home for place in places)
        assert all(place.nbytes >= 1 << 30 for place in places)


@pytest.mark.parametrize("card", [c for c in CARDS.values() if c.home == "HBM"], ids=lambda card: card.key)
def test_units_divide_the_channels(card: Platform) -> None:
    for cus in range(1, card.cus_max + 1):
        seen: set[int] = set()
        for unit in range(cus):
            low, high = (int(n) for n in card.tag_of(unit, cus).removeprefix("HBM[").rstrip("]").split(":"))
            channels = set(range(low, high + 1))
            assert not channels & seen
            assert low // 16 == high // 16, "one unit's memory crosses the middle, where the stacks meet"
            seen |= channels


def test_units_are_placed_by_turns() -> None:
    assert [CARDS["u50"].slr_of(unit) for unit in range(3)] == ["SLR0", "SLR1", "SLR0"]
    assert CARDS["u2"].slr_of(0) is None


@pytest.mark.parametrize(
    ("key", "tag", "text"),
    [
        ("u2", "DDR[0]", r"u2 has no memory 'DDR\[0\]'; it has bank0"),
        ("u2", "bank0[0]", "u2 has no memory"),
        ("u50", "HBM", r"u50 has no memory 'HBM'; it has HBM\[0:31\]"),
        ("u50", "HBM[32]", r"'HBM\[32\]' is outside HBM\[0:31\]"),
        ("u50", "HBM[5:3]", "outside"),
        ("u50", "HBM[0:]", "no memory tag"),
        ("u50", "HBM[-1]", "no memory tag"),
        ("u50", "HBM[٣]", "no memory tag"),
        ("u280", "", "no memory tag"),
    ],
)
def test_other_tags_are_refused(key: str, tag: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        CARDS[key].place(tag)


def test_a_range_has_the_bytes_of_its_channels() -> None:
    assert CARDS["u50"].place("HBM[0:15]").nbytes == 4 << 30
    assert CARDS["u55c"].place("HBM[3]").nbytes == 512 << 20
    assert CARDS["u2"].place("bank0").nbytes == 4 << 30
