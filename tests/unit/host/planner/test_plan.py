# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import time
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import pytest
from nearkv import placement
from nearkv.errors import UserError
from nearkv.planner.models import ModelShape, find_model
from nearkv.planner.plan import Plan, Prices, compare, make_plan
from nearkv.planner.report import comparison, document, rows, verdict
from nearkv.planner.sweep import parse_sweep, points, run_sweep
from nearkv.planner.system import (
    HILOS,
    IN_GPU,
    NEAR,
    NEARKV,
    POLICIES,
    Policy,
    System,
    Work,
    parse_cards,
    parse_drives,
)
from nearkv.planner.trace import trace_document
from nearkv.planner.traffic import shares

from tests.support.planning import changed, needs_simpy, system

pytestmark = needs_simpy

MODELS = ("opt-30b", "opt-66b", "llama-3-70b", "qwen2.5-32b", "mixtral-8x7b", "smollm2-135m")


def plan(
    model: str = "opt-66b", context: int = 32768, policy: Policy = NEARKV, at: System | None = None, **w: Any
) -> Plan:
    return make_plan(at or system(), Work(find_model(model), context, **w), policy)


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


@pytest.mark.parametrize(("memory", "context"), [(16.5e9, 128), (17.45e9, 2048)])
def test_no_room_for_activations_and_runtime_does_not_fit(memory: float, context: int) -> None:
    """Weights of 16.06 GB: once the runtime's 1 GB does not fit beside them, once activations of a prompt do not."""
    at = changed(system(), "gpu", memory=memory)
    found = plan("llama-3-8b", context, IN_GPU, at, batch=1)
    assert not found.fits
    assert "GPU memory lacks" in found.advice[0]
    roomy = changed(system(), "gpu", memory=24e9)
    assert plan("llama-3-8b", 2048, IN_GPU, roomy, batch=1).fits


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_size", "told"),
    [
        (32, 8, 512, "the kernel takes no heads of 512, only of 64, 80"),
        (71, 1, 64, "64 query heads per KV head at most"),
    ],
)
def test_what_the_kernel_does_not_take_does_not_fit(heads: int, kv_heads: int, head_size: int, told: str) -> None:
    work = Work(ModelShape("m", 4, 4096, heads, kv_heads, head_size, 14336, 32000), 4096)
    near, *others = compare(system(), work, NEARKV)
    assert not near.fits
    assert told in near.advice[0]
    assert verdict([near, *others]) == "It does not fit as asked."
    assert all(other.fits for other in others if other.policy.name != IN_GPU.name)


@pytest.mark.parametrize(("group", "drafts", "most"), [(8, 8, 7), (1, 63, None), (9, 7, 6), (64, 1, 0), (8, 7, None)])
def test_more_rows_than_a_job_takes_do_not_fit(group: int, drafts: int, most: int | None) -> None:
    """The store refuses such a call; group x (1 + drafts) rows of one KV head are one job."""
    shape = ModelShape("m", 4, 4096, 2 * group, 2, 64, 14336, 32000)
    found = make_plan(system(), Work(shape, 4096, drafts=drafts), NEARKV)
    assert found.fits == (most is None)
    if most is not None:
        assert f"{group} query heads x (1 + {drafts} drafts) are {group * (1 + drafts)}" in found.advice[0]
        assert found.advice[0].endswith(f": at most {most} drafts")
        assert make_plan(system(), Work(shape, 4096, drafts=most), NEARKV).fits
    assert make_plan(system(), Work(shape, 4096, drafts=drafts), HILOS).fits, "not this project's kernel"


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


def test_what_would_help_helps() -> None:
    found = plan("opt-175b", 131072, at=system(2))
    assert [need.place for need in found.places.needs if not need.fits] == ["each drive"]
    cards = int(found.advice[0].split("about ")[1].split(" cards")[0])
    assert plan("opt-175b", 131072, at=system(cards)).fits


def test_pages_that_fit_in_card_memory_are_not_read() -> None:
    found = plan("smollm2-135m", 4096)
    assert found.places.resident == 1
    assert found.components["drives"] < 0.1 * found.components["kernel"] + 1e-3
    assert found.media_nbytes == 0


# Figures that change nothing in any plan where something else is the smaller of two, so both are halved; and what is
# bounded by 1.
_HALVED = {"efficiency"}


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


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("context", 0, "context is 0; 1 to"),
        ("context", 1 << 40, "context is 1099511627776"),
        ("context", 1.5, "context is 1.5; a whole number"),
        ("batch", -1, "batch is -1"),
        ("output", 0, "output is 0"),
        ("drafts", 64, "drafts is 64; 0 to 63"),
        ("acceptance", 1.0, "acceptance is 1.0"),
        ("acceptance", float("nan"), "acceptance is nan"),
        ("batch", True, "batch is True"),
    ],
)
def test_impossible_work_is_refused_by_name(name: str, value: Any, named: str) -> None:
    with pytest.raises(UserError, match=named):
        Work(find_model("opt-30b"), **{"context": 1024, name: value})


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"hit": 1.5}, "hit is 1.5"), ({"alpha": -0.1}, "alpha is -0.1"), ({"element": 3}, "of 3 bytes")],
)
def test_impossible_policies_are_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=named):
        replace(NEARKV, **changes)


@pytest.mark.parametrize("text", ["0xsmartssd", "99999xsmartssd", "16x", "", "x", "3xnosuch", "-1xsmartssd"])
def test_bad_counts_of_cards_and_drives(text: str) -> None:
    with pytest.raises(UserError):
        parse_cards(text)
    with pytest.raises(UserError):
        parse_drives(text)
    assert parse_cards("smartssd")[0] == 1
    assert parse_cards("16xsmartssd")[0] == 16


def test_drafts_share_a_read() -> None:
    one, five = plan(context=131072), plan(context=131072, drafts=4)
    assert five.step.seconds < 1.1 * one.step.seconds
    assert 2 < five.tokens_per_s / one.tokens_per_s < 2.4  # 1 + .6 + .36 + .216 + .13


def test_few_heads_are_split_over_the_cards() -> None:
    assert (
        plan("mixtral-8x7b", 131072, batch=1).step.seconds
        < 1.05 * plan("mixtral-8x7b", 131072, batch=1, at=system(8)).step.seconds
    )


@pytest.mark.parametrize("context", [100, 1000, 40000])
@pytest.mark.parametrize(("cards", "batch", "model"), [(16, 1, "llama-3-8b"), (64, 1, "smollm2-135m"),
                                                       (64, 3, "llama-3-8b"), (7, 2, "smollm2-135m")])  # fmt: skip
def test_few_heads_lie_where_the_store_places_them(cards: int, batch: int, model: str, context: int) -> None:
    """Pieces of pairs and tokens of each card, as the store deals one sequence after another."""
    work = Work(find_model(model), context, batch)
    loads, jobs, tokens = [0.0] * cards, [0] * cards, [0] * cards
    for _ in range(batch):
        for one in placement.shares(loads, work.model.kv_heads):
            count = one.stripe.count(-(-context // 128))
            loads[one.card] += len(one.heads) / one.stripe.of
            jobs[one.card] += len(one.heads) if count else 0
            tokens[one.card] += len(one.heads) * count * 128
    dealt = shares(system(cards), work, NEARKV, 0.0)
    assert sum(share.cards for share in dealt) == sum(job > 0 for job in jobs)
    assert sum(share.cards * share.pairs for share in dealt) == sum(jobs)
    most = max(share.pairs * share.tokens for share in dealt)
    assert max(tokens) - 128 * max(jobs) <= most <= max(tokens)
    assert sum(share.cards * share.pairs * share.tokens for share in dealt) == pytest.approx(
        batch * work.model.kv_heads * context
    )
    up = 64 * (32 if model == "llama-3-8b" else 30) * work.model.group * (work.model.head_size * 4 + 8) / 64
    assert plan(model, context, at=system(cards), batch=batch).link_nbytes > up * sum(jobs)


def test_heads_of_a_short_sequence_are_not_all_on_one_card() -> None:
    """It is one extent: each head's lies on a card of its own."""
    one, two = (plan("llama-3-8b", 100, batch=batch).components["kernel"] for batch in (1, 2))
    assert one <= two * (1 + 1e-9)


def test_x_is_kept_only_where_it_is_smaller() -> None:
    assert plan("opt-66b", 65536, HILOS).alpha > 0
    assert plan("llama-3-70b", 65536, HILOS).alpha == 0


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


def test_more_cards_than_a_chassis_takes_need_more_of_them() -> None:
    sixteen, more = plan(), plan(at=system(17))
    assert more.usd - sixteen.usd == 2400 + 10000
    told = document(more)["notes"]
    assert any(note.startswith("17 cards need 2 chassis of 16 slots: all are in the cost") for note in told)
    assert not any("chassis" in note for note in document(sixteen)["notes"])
    assert plan(at=system(17, host="gen4-server")).usd - plan(at=system(host="gen4-server")).usd == 2400
    assert plan(policy=POLICIES["plain-ssd"], at=system(17)).usd == plan(policy=POLICIES["plain-ssd"]).usd


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


@pytest.mark.parametrize(
    ("policy", "context"),
    [
        (NEARKV, 16384),
        (replace(NEARKV, weights_on_drives=True, hit=0.5), 4096),
        (replace(HILOS, alpha=0.5), 16384),
        (POLICIES["host-ssd"], 8192),
        (POLICIES["plain-ssd"], 8192),
        (IN_GPU, 512),
    ],
)
def test_a_trace_is_one_step_whose_lanes_serve_one_thing_at_a_time(policy: Policy, context: int) -> None:
    """As a viewer reads it: complete events of named threads, none before the begin, and none beside another."""
    found = make_plan(system(), Work(find_model("opt-30b"), context), policy, trace=True)
    told = json.loads(json.dumps(trace_document(found)))
    names = [event for event in told["traceEvents"] if event["ph"] == "M"]
    events = [event for event in told["traceEvents"] if event["ph"] == "X"]
    assert len(names) + len(events) == len(told["traceEvents"])
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in names if e["name"] == "thread_name"}
    assert {"GPU"} <= set(threads.values())
    assert {"uplink"} <= set(threads.values()) or policy.place != NEAR
    assert len(set(threads.values())) == len(threads)
    assert {e["args"]["name"] for e in names if e["name"] == "process_name"} == {"host", "16 x smartssd"}
    assert all(e["ts"] >= 0 and e["dur"] > 0 and e["name"] for e in events)
    for thread in threads:
        served = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if (e["pid"], e["tid"]) == thread)
        assert served
        assert all(a[1] <= b[0] + 1e-3 for a, b in pairwise(served)), threads[thread]  # a thousandth of a us: rounding
    assert {(e["pid"], e["tid"]) for e in events} == set(threads)
    layers = sum(e["name"] == "MLP" for e in events)
    assert layers == find_model("opt-30b").layers
    length = (max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events)) / 1e6
    assert length == pytest.approx(found.step.seconds, rel=0.2)


@pytest.mark.parametrize(
    ("text", "values"),
    [("context=4k..32k", (4096, 8192, 16384, 32768)), ("batch=1..5", (1, 2, 4, 5)), ("cards=2..2", (2,))],
)
def test_sweeps(text: str, values: tuple[int, ...]) -> None:
    assert parse_sweep(text).values == values


def test_a_sweep_of_points() -> None:
    sweep = parse_sweep("context=4k..128k:100")
    assert (len(sweep.values), sweep.values[0], sweep.values[-1]) == (100, 4096, 131072)


@pytest.mark.parametrize(
    "text",
    ["", "context", "context=4k", "speed=1..2", "context=8k..4k", "context=0..4", "context=1..2:1", "context=1..2:9999",
     "context=-1..4", "context=1..2:"],
)  # fmt: skip
def test_bad_sweeps(text: str) -> None:
    with pytest.raises(UserError, match="sweep"):
        parse_sweep(text)


def test_sweep_over_cards_beyond_reason() -> None:
    with pytest.raises(UserError, match="cards = 8192; at most 4096"):
        points(parse_sweep("cards=4k..8k"), system(), Work(find_model("opt-30b"), 1024))
    found = run_sweep(points(parse_sweep("cards=2..4"), system(), Work(find_model("opt-30b"), 1024)), [NEARKV])
    assert [row[0].system.cards for row in found] == [2, 4]


def test_a_plan_takes_well_under_two_seconds_of_cpu() -> None:
    began = time.process_time()
    plan("opt-175b", 131072, HILOS)
    assert time.process_time() - began < 2
