# SPDX-License-Identifier: Apache-2.0
"""Which card has how much, and the bytes that cross links and leave drives."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nearkv import placement
from nearkv.planner.models import find_model
from nearkv.planner.system import HILOS, NEARKV, Work
from nearkv.planner.traffic import shares

from tests.support.planning import needs_simpy, plan, system

pytestmark = needs_simpy


def test_few_heads_are_split_over_the_cards() -> None:
    """Eight KV heads: without a split eight of the sixteen cards read all."""
    split = replace(NEARKV, hit=0.0)
    whole = replace(split, split_tokens=False)
    eight, sixteen, unsplit = (
        plan("mixtral-8x7b", 131072, policy, system(cards), batch=1).components["drives"]
        for cards, policy in ((8, split), (16, split), (16, whole))
    )
    assert unsplit == pytest.approx(eight, rel=0.02)
    assert sixteen == pytest.approx(eight / 2, rel=0.02)


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
    up = work.model.layers * work.model.group * (work.model.head_size * 4 + 8)  # each piece has outputs of its own
    assert plan(model, context, at=system(cards), batch=batch).link_nbytes > up * sum(jobs)


def test_heads_of_a_short_sequence_are_not_all_on_one_card() -> None:
    """It is one extent: each head's lies on a card of its own."""
    one, two = (plan("llama-3-8b", 100, batch=batch).components["kernel"] for batch in (1, 2))
    assert one <= two * (1 + 1e-9)


def test_x_is_read_from_the_drives_whatever_card_memory_holds() -> None:
    """Half the heads keep X, which is half of their K and V, 1.237 TB in all."""
    kv = 32768 * 16 * 2359296
    for hit, left in ((0.0, 1.0), (0.5, 0.5), (1.0, 0.0)):
        found = plan(policy=replace(HILOS, alpha=0.5, hit=hit))
        assert found.media_nbytes == pytest.approx(kv / 4 + left * kv / 2)
