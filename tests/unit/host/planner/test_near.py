# SPDX-License-Identifier: Apache-2.0
"""What a step writes behind itself: whole spills of what was right, once, and each card its part."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nearkv.planner.models import find_model
from nearkv.planner.plan import make_plan
from nearkv.planner.system import ANS, NEARKV, Policy, Work

from tests.support.planning import needs_simpy, system

pytestmark = needs_simpy

RESIDENT = replace(NEARKV, hit=1.0)  # drives do nothing but write
PAGE_S = 4096 / 0.16e9  # a page alone, by the drive's table


def drives_s(policy: Policy, cards: int, batch: int, **work: float) -> float:
    """Seconds that the drives of 30 layers of three KV heads work in a step: units of 32 tokens fill a page."""
    asked = Work(find_model("smollm2-135m"), 4096, batch, **work)  # type: ignore[arg-type]
    return make_plan(system(cards), asked, policy).components["drives"]


def test_drafts_that_were_wrong_are_not_written() -> None:
    pages = 30 * 2 * 3 * 4 / 32  # of K and V for each new token
    own_s = PAGE_S - 4096 / 1.04e9 + 4096 / 1.6e9  # what it takes beside its bytes, and those at the rate from the FPGA
    assert drives_s(RESIDENT, 1, 4) == pytest.approx(pages * own_s)
    for acceptance, right in ((0.0, 1.0), (0.5, 1.9375), (0.9, 4.0951)):
        found = drives_s(RESIDENT, 1, 4, drafts=4, acceptance=acceptance)
        assert found == pytest.approx(right * pages * own_s)


def test_what_is_written_before_the_step_goes_on_has_all_drafts() -> None:
    """They are not known to be wrong yet."""
    at_once = replace(ANS, hit=1.0)
    one, five = (drives_s(at_once, 1, 4, drafts=drafts, acceptance=0.5) for drafts in (0, 4))
    assert five == pytest.approx(5 * one)


def test_cards_that_share_a_pair_share_its_writes() -> None:
    """Three heads on one, three and 24 cards; there each is split into eight stripes."""
    one, three, many = (drives_s(RESIDENT, cards, 1) for cards in (1, 3, 24))
    assert (three, many) == (pytest.approx(one / 3), pytest.approx(one / 24))
