# SPDX-License-Identifier: Apache-2.0
"""Time to the first token: weights from drives, K and V on their way to where they stay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nearkv.planner.models import find_model
from nearkv.planner.plan import make_plan
from nearkv.planner.prefill import write_rate
from nearkv.planner.system import CARD_DRIVES, FLEX_SSD, IN_GPU, NEARKV, POLICIES, Work

from tests.support.planning import changed, needs_simpy, plan, system

pytestmark = needs_simpy


@pytest.mark.parametrize(("cards", "rate"), [(1, 3.2e9), (2, 6.4e9), (16, 8e9)])
def test_weights_come_no_faster_than_the_cards_drives(cards: int, rate: float) -> None:
    """3.2 GB/s each, 8 GB/s over the uplink; each prompt needs them all."""
    found = plan(context=128, batch=2, at=system(cards), policy=replace(NEARKV, weights_on_drives=True))
    assert found.places.drives > 90e9
    assert found.prefill.parts["weights"] == pytest.approx(2 * found.places.drives / rate)


def test_k_and_v_are_written_over_every_link_on_their_way() -> None:
    slow = changed(system(), "gpu", link=2e9)
    rates = {
        "cards": write_rate(system(), NEARKV),
        "two cards": write_rate(system(2), NEARKV),
        "a slow GPU link": write_rate(slow, NEARKV),
        "host memory": write_rate(system(), POLICIES["host-dram"]),
        "plain drives": write_rate(system(), FLEX_SSD),
        "the cards' drives": write_rate(system(), replace(FLEX_SSD, drives=CARD_DRIVES)),
    }
    assert rates == {
        "cards": 8e9,
        "two cards": 6.4e9,
        "a slow GPU link": 2e9,
        "host memory": 25e9,
        "plain drives": pytest.approx(4 * 4.1e9),
        "the cards' drives": 8e9,
    }
    found = plan(context=1024, policy=POLICIES["host-dram"])
    assert found.prefill.parts["writing K and V"] == pytest.approx(1024 * 16 * 2359296 / 25e9)
    assert plan("smollm2-135m", 1024, IN_GPU).prefill.parts["writing K and V"] == 0
    assert plan("smollm2-135m", 1024, POLICIES["host-dram"], system(gpu="cpu")).prefill.parts["writing K and V"] == 0


def test_a_slower_drive_may_bring_a_larger_share_of_x_and_with_it_the_first_token_sooner() -> None:
    """docs/planner.md has this case. The share is that of the shortest step; X is half of K and V, and writing them is
    what prompts wait for here. With one share nothing comes sooner."""
    work = Work(find_model("opt-30b"), 2048, 4)
    fast = system(1, gpu="h200", host="gen4-server")
    slow = changed(fast, "card_drive", p2p_read=2e9)
    chosen = replace(NEARKV, alpha=None)
    before, after = (make_plan(at, work, chosen) for at in (fast, slow))
    assert (before.alpha, after.alpha) == (0.5, 1.0)
    assert after.step.seconds > before.step.seconds
    assert before.prefill.bottleneck == "writing K and V"
    assert after.prefill.seconds < before.prefill.seconds
    for alpha in (0.0, 0.5, 1.0):
        a, b = (make_plan(at, work, replace(NEARKV, alpha=alpha)) for at in (fast, slow))
        assert b.prefill.seconds >= a.prefill.seconds
        assert b.step.seconds >= a.step.seconds
