# SPDX-License-Identifier: Apache-2.0
"""More context, a slower drive or link, a lower hit rate: with one share of X neither a step nor the first token ever
comes sooner, whatever the system and the policy; nor does a step where the share is chosen."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nearkv.planner.hardware import Card, SizeTable
from nearkv.planner.hardware_files import load
from nearkv.planner.memory import place
from nearkv.planner.models import find_model
from nearkv.planner.plan import make_plan
from nearkv.planner.prefill import prefill
from nearkv.planner.step import simulate
from nearkv.planner.system import ANS, HILOS, NEAR, NEARKV, POLICIES, Policy, System, Work

from tests.support.planning import changed, needs_simpy, system

pytestmark = needs_simpy

MODELS = (
    "opt-13b", "opt-30b", "opt-66b", "opt-175b", "llama-3-8b", "llama-3-70b", "qwen2.5-32b", "mixtral-8x7b",
    "smollm2-135m",
)  # fmt: skip
LEAST = 1 - 1e-9


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Cards more often than others; a share of X, weights on the drives, a hit rate, INT8."""
    policy = draw(st.sampled_from([NEARKV, NEARKV, NEARKV, NEARKV, HILOS, HILOS, ANS, *POLICIES.values()]))
    if policy.place != NEAR:
        return policy.with_(alpha=0.0)
    return policy.with_(
        alpha=draw(st.sampled_from([0.0, 0.0, 0.0, 0.125, 0.25, 0.5, 1.0])),
        weights_on_drives=draw(st.sampled_from([False, False, True])),
        hit=draw(st.sampled_from([None, None, 0.0, 0.3, 0.9, 1.0])),
        element=draw(st.sampled_from([2, 2, 1])),
    )


@st.composite
def systems(draw: st.DrawFn) -> System:
    """Up to 64 cards, more than some works have heads; drives give from a quarter to six times of what they do."""
    at = system(
        draw(st.sampled_from([1, 2, 3, 4, 8, 16, 64])),
        gpu=draw(st.sampled_from(["a100-40g", "h200", "rtx4090", "cpu"])),
        host=draw(st.sampled_from(["xeon-h3", "gen4-server"])),
        card=draw(st.sampled_from(["smartssd", "smartssd", "u50-nvme"])),
    )
    return changed(at, "card_drive", p2p_read=at.card.drive.p2p_read * 2 ** draw(st.floats(-2.0, 2.6)))


works = st.builds(
    Work,
    model=st.sampled_from(MODELS).map(find_model),
    context=st.floats(6.0, 18.0).map(lambda octave: int(2**octave)),
    batch=st.sampled_from([1, 2, 3, 4, 8, 16, 32]),
    drafts=st.sampled_from([0, 0, 0, 4]),
)
# How much more or slower: a hair, where a count jumps, and a lot.
factors = st.one_of(st.floats(1.0, 1.01), st.floats(1.0, 4.0))


def step_s(at: System, work: Work, policy: Policy) -> float:
    alpha = policy.alpha or 0.0
    return simulate(at, work, policy, alpha, place(at, work, policy, alpha)).seconds


def first_token_s(at: System, work: Work, policy: Policy) -> float:
    alpha = policy.alpha or 0.0
    return prefill(at, work, policy, alpha, place(at, work, policy, alpha)).seconds


@settings(max_examples=100)
@given(at=systems(), work=works, policy=policies(), factor=factors)
def test_more_context_is_never_faster(at: System, work: Work, policy: Policy, factor: float) -> None:
    longer = replace(work, context=max(work.context + 1, int(work.context * factor)))
    assert step_s(at, longer, policy) >= step_s(at, work, policy) * LEAST
    assert first_token_s(at, longer, policy) >= first_token_s(at, work, policy) * LEAST


@settings(max_examples=100)
@given(
    at=systems(),
    work=works,
    policy=policies(),
    factor=factors,
    what=st.sampled_from(["p2p_read", "p2p_read", "read", "all", "plain", "gpu", "card", "uplink"]),
)
def test_a_slower_drive_or_link_is_never_faster(
    at: System, work: Work, policy: Policy, factor: float, what: str
) -> None:
    drive = at.card.drive
    names = ("p2p_read", "p2p_write", "read", "write") if what == "all" else (what,)
    if what == "plain":
        slow = changed(at, "drive", read=at.drive.read / factor)
    elif what == "gpu":
        slow = changed(at, "gpu", link=at.gpu.link / factor)
    elif what == "card":
        slow = changed(at, "card", link=at.card.link / factor)
    elif what == "uplink":
        slow = changed(at, "host", uplink=at.host.uplink / factor)
    else:
        slow = changed(at, "card_drive", **{name: getattr(drive, name) / factor for name in names})
    assert step_s(slow, work, policy) >= step_s(at, work, policy) * LEAST
    assert first_token_s(slow, work, policy) >= first_token_s(at, work, policy) * LEAST


@settings(max_examples=100)
@given(at=systems(), work=works, policy=policies(), low=st.floats(0.0, 1.0), high=st.floats(0.0, 1.0))
def test_a_lower_hit_rate_is_never_faster(at: System, work: Work, policy: Policy, low: float, high: float) -> None:
    if policy.place != NEAR:
        policy = NEARKV
    low, high = sorted((low, high))
    few, many = (step_s(at, work, policy.with_(hit=hit)) for hit in (low, high))
    assert few >= many * LEAST


def test_a_noisy_table_of_requests_changes_nothing() -> None:
    """Sixteen KiB alone in less time than four, as a table of measurements may say: few tokens read in one request."""
    table = ((4096, 4e4), (16384, 2e9), (1 << 20, 3e9))
    noisy = changed(system(1), "card_drive", by_size=SizeTable(read=table))
    policy = replace(NEARKV, hit=0.0)
    works = [Work(find_model("smollm2-135m"), context, 1) for context in (1, 5, 8, 16, 21, 32, 64, 128, 512)]
    times = [step_s(noisy, work, policy) for work in works]
    assert all(a <= b / LEAST for a, b in pairwise(times))


@pytest.mark.parametrize("cards", [1, 2, 16])
def test_where_the_number_of_lists_jumps(cards: int) -> None:
    """64 MB of K and V of a layer on a card, one list more: the kernel begins earlier there."""
    policy = replace(HILOS, alpha=0.0)
    each = find_model("llama-3-8b").kv_nbytes_per_token() / 32 * 4 / cards
    for lists in (1, 4):
        edge = int(lists * 64e6 / each)
        times = [
            step_s(system(cards), Work(find_model("llama-3-8b"), c, 4), policy) for c in (edge - 1, edge, edge + 2)
        ]
        assert all(a <= b / LEAST for a, b in pairwise(times))


def test_a_drive_near_half_the_rate_of_card_memory() -> None:
    """Each page crosses that memory twice, however fast it comes; a faster drive once slowed the kernel."""
    at = changed(system(3), "card", drive=replace(load("smartssd", Card).drive, p2p_read=9.2e9))
    work, policy = Work(find_model("opt-13b"), 159, 32), replace(NEARKV, hit=0.42)
    times = [step_s(changed(at, "card_drive", p2p_read=9.2e9 / slower), work, policy) for slower in (1, 1.3, 2, 4, 8)]
    assert all(a <= b / LEAST for a, b in pairwise(times))


@settings(max_examples=40)
@given(at=systems(), model=st.sampled_from(["opt-13b", "opt-30b", "opt-66b"]), octave=st.floats(6.0, 18.0),
       factor=factors, batch=st.sampled_from([1, 4, 16]))  # fmt: skip
def test_nor_where_the_share_of_x_is_chosen(at: System, model: str, octave: float, factor: float, batch: int) -> None:
    work = Work(find_model(model), int(2**octave), batch)
    longer = replace(work, context=max(work.context + 1, int(work.context * factor)))
    less, more = (make_plan(at, w, replace(HILOS, alpha=None)) for w in (work, longer))
    assert more.step.seconds >= less.step.seconds * LEAST
