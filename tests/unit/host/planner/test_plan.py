# SPDX-License-Identifier: Apache-2.0
"""Times of a plan, what bounds them, and what follows from them: energy, wear, cost."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from typing import Any

import pytest
from nearkv.errors import UserError
from nearkv.planner.models import ModelShape, find_model
from nearkv.planner.plan import Prices, make_plan
from nearkv.planner.report import document
from nearkv.planner.system import HILOS, NEARKV, POLICIES, System, Work

from tests.support.planning import changed, needs_simpy, plan, system

pytestmark = needs_simpy
_HALVED = {"efficiency"}  # at most 1: not doubled


def test_reading_once_from_the_drive_is_the_least() -> None:
    """32 layers, 8 KV heads of 128, 131072 tokens: 16 GiB at 3.0 GB/s."""
    shape = ModelShape("m", 32, 4096, 32, 8, 128, 14336, 32000)
    found = make_plan(system(1), Work(shape, 131072, 1), replace(NEARKV, hit=0.0))
    assert 5.72 <= 2**34 / 3.0e9 <= found.step.seconds < 6.0


def test_k_and_v_bound_a_long_context_and_weights_a_short_one() -> None:
    assert plan(context=131072).bottleneck == "drives"
    assert plan("llama-3-70b", 512).bottleneck == "GPU link"


def test_a_link_is_no_faster_than_its_bytes() -> None:
    """Weights and K and V of a step, 146 GB, over one link of 25 GB/s, which is busy all the time."""
    found = plan("llama-3-70b", 8192, POLICIES["host-dram-gpu"])
    nbytes = (
        8192 * 16 * 327680 + found.places.dram * 80 * found.work.model.layer_parameters / found.work.model.parameters
    )
    assert found.step.seconds >= nbytes / 25e9
    assert found.components["GPU link"] == pytest.approx(found.step.seconds, rel=0.005)


def test_components_do_not_exceed_the_step() -> None:
    for policy in POLICIES.values():
        found = plan(policy=policy)
        assert all(seconds <= found.step.seconds * 1.001 for seconds in found.components.values()), policy.name
        assert max(found.components.values()) > 0.4 * found.step.seconds


def test_a_drive_faster_than_half_the_card_memory_does_not_slow_the_kernel() -> None:
    """Pages come at no more than half of the memory's rate in the long run, so the kernel keeps the other half."""
    speeds = (4e9, 8e9, 12e9, 18e9)
    systems = [changed(system(4, host="gen4-server"), "card_drive", p2p_read=speed) for speed in speeds]
    times = [plan("llama-3-8b", 131072, replace(NEARKV, hit=0.0), at).step.seconds for at in systems]
    assert times == sorted(times, reverse=True)


def test_drafts_share_a_read() -> None:
    one, five = plan(context=131072), plan(context=131072, drafts=4)
    assert five.step.seconds < 1.1 * one.step.seconds
    assert 2 < five.tokens_per_s / one.tokens_per_s < 2.4  # 1 + .6 + .36 + .216 + .13


def test_x_is_kept_only_where_it_is_smaller() -> None:
    assert plan("opt-66b", 65536, HILOS).alpha > 0
    assert plan("llama-3-70b", 65536, HILOS).alpha == 0


@pytest.mark.parametrize("part", ["gpu", "host", "card", "card_drive", "drive"])
def test_doubling_each_figure_changes_a_plan(part: str) -> None:
    base = system(4)
    # Plain drives below their link, memory that holds neither K and V nor weights, cards that are read by the host too.
    base = changed(base, "card", link=20e9)
    base = changed(
        changed(base, "host", drives_link=20e9, uplink=6e9, dram=150e9, slots=2), "drive", p2p_read=0.0, p2p_write=0.0
    )
    some = [
        replace(NEARKV, alpha=0.25),
        replace(NEARKV, alpha=0.0, weights_on_drives=True),
        replace(HILOS, alpha=0.0),
        *(POLICIES[name] for name in ("host-dram", "host-ssd", "plain-ssd", "host-dram-gpu")),
    ]
    works = [Work(find_model("opt-30b"), 8192, 4), Work(find_model("opt-30b"), 64, 1)]

    def told(at: System) -> list[dict[str, Any]]:
        two = [at, replace(at, drives=2, cards=1)]
        found = [document(make_plan(s, work, policy)) for s in two for work in works for policy in some]
        for one in found:
            del one["inputs"]
        return found

    before = told(base)
    card = base.card
    whole = card.drive if part == "card_drive" else getattr(base, part)
    for entry in fields(whole):
        limits, value = entry.metadata.get("limits"), getattr(whole, entry.name)
        if limits is None or value == 0 or (part == "card_drive" and entry.name in ("power", "price")):
            continue  # the card's own power and price count
        at = changed(base, part, **{entry.name: value / 2 if entry.name in _HALVED else value * 2})
        assert told(at) != before, f"{part}.{entry.name}"


def test_energy_wear_and_cost_hang_together() -> None:
    found = plan()
    assert found.joules_per_token == pytest.approx(found.watts / found.tokens_per_s)
    assert found.written_per_day is not None
    assert found.life_years == pytest.approx(7.008e15 / found.written_per_day / 365.25)
    dear = make_plan(system(), Work(find_model("opt-66b"), 32768), NEARKV, Prices(years=1.5))
    assert 1.8 < dear.usd_per_million / found.usd_per_million <= 2
    with pytest.raises(UserError, match="years = 0"):
        Prices(years=0)
    with pytest.raises(UserError, match="years = 1e-30 is impossible"):
        Prices(years=1e-30)
    with pytest.raises(UserError, match="price of a kWh = -1"):
        Prices(kwh=-1)


def test_more_cards_than_a_chassis_takes_need_more_of_them() -> None:
    sixteen, more = plan(), plan(at=system(17))
    assert more.usd - sixteen.usd == 2400 + 10000
    told = document(more)["notes"]
    assert any(note.startswith("17 cards need 2 chassis of 16 slots: all are in the cost") for note in told)
    assert not any("chassis" in note for note in document(sixteen)["notes"])
    assert plan(at=system(17, host="gen4-server")).usd - plan(at=system(host="gen4-server")).usd == 2400
    assert plan(policy=POLICIES["plain-ssd"], at=system(17)).usd == plan(policy=POLICIES["plain-ssd"]).usd


def test_a_plan_takes_well_under_two_seconds_of_cpu() -> None:
    began = time.process_time()
    plan("opt-175b", 131072, HILOS)
    assert time.process_time() - began < 2
