# SPDX-License-Identifier: Apache-2.0
"""What people and programs are told of a plan: table, document, comparison and its sentence."""

from __future__ import annotations

from dataclasses import replace

from nearkv.planner.models import ModelShape, find_model
from nearkv.planner.plan import compare, make_plan
from nearkv.planner.report import comparison, document, inputs, rows, verdict
from nearkv.planner.system import CARD_DRIVES, FLEX_SSD, NEARKV, POLICIES, Work

from tests.support.planning import changed, needs_simpy, plan, system

pytestmark = needs_simpy


def test_the_table_shows_formula_and_inputs() -> None:
    told = {row.name: row.value for row in rows(plan())}
    assert "2 x 64 layers x 72 KV heads x 128 x 2 bytes = 2359296 bytes per token" in told["K and V"]
    assert "p2p_read 3.00 GB/s" in told["input: drive smartssd-drive"]
    assert "kernel_rate" not in told["input: 16 cards smartssd"], "the RTL's cycles are no rate"
    assert told["input: prices"] == "hardware written off over 3 years, a kWh at 0.12 USD"
    assert told["input: work"] == "context 32768, batch 16, output 64, drafts 0"
    told = {row.name: row.value for row in rows(plan(policy=replace(NEARKV, hit=0.5), drafts=4))}
    assert told["input: work"].endswith(
        "drafts 4, each taken to be right with probability 0.6, in card memory 0.5 of K and V"
    )
    assert told["fits"] == "yes"
    assert rows(plan("opt-175b", 131072, at=system(1)))[0].value.startswith("NO")


def test_a_context_beyond_the_model_is_noted_and_planned() -> None:
    inside, beyond = plan(context=1984), plan(context=1985)
    assert beyond.fits
    assert not document(inside)["notes"]
    assert "note" not in {row.name for row in rows(inside)}
    (note,) = document(beyond)["notes"]
    assert note.startswith("context 1985 and 64 new tokens go beyond the 2048 positions that opt-66b is made for")
    assert {row.name: row.value for row in rows(beyond)}["note"] == note
    unknown = ModelShape("m", 4, 4096, 32, 8, 128, 14336, 32000)
    assert not document(make_plan(system(), Work(unknown, 1 << 20), NEARKV))["notes"]


def test_a_comparison_says_what_pays() -> None:
    long = compare(system(), Work(find_model("opt-66b"), 131072), NEARKV)
    assert [p.policy.name for p in long] == list(POLICIES)
    assert "times the speed of host drives, through the GPU" in verdict(long)
    # K and V of a small model lie in the GPU's memory, and nothing near a drive is as fast.
    small = compare(system(1), Work(find_model("smollm2-135m"), 2048, 1), NEARKV)
    assert verdict(small).startswith("Near-data does not pay")
    # Whatever is asked for first, the sentence is about cards.
    other = compare(system(), Work(find_model("opt-66b"), 131072), POLICIES["plain-ssd"])
    assert verdict(other) == f"cards (nearkv) have {verdict(long)}"
    at = system(1)
    assert verdict(compare(at, Work(find_model("opt-175b"), 131072), POLICIES["host-ssd"])) == (
        "With cards (nearkv) it does not fit."
    )
    titles, lines = comparison(long)
    assert all(len(line) == len(titles) for line in lines)


def test_what_has_no_price_or_power_is_named_and_not_compared() -> None:
    """As descriptions that calibrate writes have none."""
    bare = changed(changed(system(), "card", power=0.0, price=0.0), "host", price=0.0)
    found = compare(bare, Work(find_model("opt-66b"), 131072), NEARKV)
    told = {row.name: row.value for row in rows(found[0])}
    assert told["energy"].endswith(" W); without smartssd, whose power is not given")
    assert told["cost"].endswith("prompts included; without xeon-h3, smartssd, whose price is not given")
    assert document(found[0])["without_price"] == ["xeon-h3", "smartssd"]
    assert comparison(found)[1][0][-3:] == ["not known"] * 3
    assert verdict(found).endswith("; what a token costs is not compared, as no price is given for smartssd, xeon-h3.")
    free = changed(changed(bare, "gpu", in_host_memory=True, memory=0.0, price=0.0), "drive", price=0.0)
    assert "not compared" in verdict(compare(free, Work(find_model("smollm2-135m"), 1024), NEARKV))
    assert plan().without_power == plan().without_price == ()
    # The price of a CPU that computes is in the host's.
    assert plan(at=system(gpu="cpu")).without_price == ()


def test_inputs_name_the_drives_that_are_used() -> None:
    own = [name for name, _ in inputs(plan(policy=FLEX_SSD))]
    cards = [name for name, _ in inputs(plan(policy=replace(FLEX_SSD, drives=CARD_DRIVES)))]
    assert (own[-1], cards[-1]) == ("4 drives pm9a3", "16 drives smartssd-drive")
