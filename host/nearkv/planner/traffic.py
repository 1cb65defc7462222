# SPDX-License-Identifier: Apache-2.0
"""Bytes of one decode step: over the link, from and to the media, and which card does how much. Nothing is timed."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from nearkv_driver.regmap import BLOCK_TOKENS, PAGE_BYTES, TILE_TOKENS
from nearkv_driver.sizes import padded

from nearkv.pages import Stripe, extents
from nearkv.placement import stripes
from nearkv.planner.models import ModelShape
from nearkv.planner.system import APART, NEAR, ONE, UNITS, Policy, System, Work

EXTENT = BLOCK_TOKENS  # tokens that lie together on a card


@dataclass(frozen=True)
class Share:
    """`cards` cards that each attend to `pairs` (sequence, KV head) pairs of `tokens` tokens in every layer."""

    cards: int
    pairs: float
    tokens: float


def pair_nbytes(model: ModelShape, tokens: float, element: float) -> float:
    """K and V of one KV head of one sequence in one layer, as stored."""
    return 2 * tokens * padded(model.head_size) * element


def shares(system: System, work: Work, policy: Policy, alpha: float) -> list[Share]:
    """How pairs are dealt to the cards, cards that do the same together; idle cards are left out."""
    pairs = round(work.batch * work.model.kv_heads * (1 - alpha))
    if pairs == 0:
        return []
    if pairs < system.cards and policy.split_tokens:
        return _split(system.cards, pairs, work.model.kv_heads, work.context)
    each, rest = divmod(pairs, system.cards)
    found = [Share(rest, each + 1, work.context), Share(system.cards - rest, each, work.context)]
    return [share for share in found if share.cards and share.pairs]


def _split(cards: int, pairs: int, kv_heads: int, context: int) -> list[Share]:
    """Pairs in the stripes that `placement` makes of them, which go to the cards by turns. `tokens` of a share are the
    average of its stripes, whose lengths differ by an extent at most."""
    count = stripes(cards, kv_heads)
    whole = extents(context, EXTENT)
    lengths = [Stripe(first, count).count(whole) * EXTENT for first in range(count)]
    lengths[(whole - 1) % count] -= whole * EXTENT - context  # the last extent is not full
    held = [[0, 0] for _ in range(cards)]  # stripes and tokens of each card
    number = 0
    for heads in [kv_heads] * (pairs // kv_heads) + [pairs % kv_heads]:
        for tokens in lengths:
            for card in range(number, number + heads):
                if tokens:
                    held[card % cards][0] += 1
                    held[card % cards][1] += tokens
            number += heads
    alike = Counter((own, tokens) for own, tokens in held if own)
    return [Share(number, own, tokens / own) for (own, tokens), number in alike.items()]


def link_down(model: ModelShape, queries: int, policy: Policy) -> float:
    """Of one pair, layer and step: q of its group, the new k and v rows, and what waits where buffers go apart."""
    d = padded(model.head_size)
    q = model.group * queries * d * policy.io_element
    new = 2 * queries * d * policy.element
    # Keys that wait are multiplied on the host: their scores and V rows go, half a spill on average.
    waiting = (
        spill_tokens(model, policy) / 2 * (d * policy.element + model.group * queries * 4)
        if policy.transfers == APART and policy.spill
        else 0.0
    )
    return q + new + waiting


def link_up(model: ModelShape, queries: int, policy: Policy) -> float:
    """Output rows of one pair; this program adds two numbers per row for merging."""
    merge = 8 if policy.io_element == 4 else 0
    return model.group * queries * (padded(model.head_size) * policy.io_element + merge)


def offload_read(model: ModelShape, context: float, element: float = 2) -> float:
    """K and V of one sequence and layer, moved to where the rest is computed."""
    return model.kv_heads * pair_nbytes(model, context, element)


def traffic_ratio(model: ModelShape, context: int) -> float:
    """Bytes over the interconnect per sequence, layer and step: host offload with its new rows, over near-storage
    attention's q, k, v and output, all FP16."""
    policy = Policy("", NEAR)
    near = model.kv_heads * (link_down(model, 1, policy) + link_up(model, 1, policy))
    return (offload_read(model, context) + offload_read(model, 1)) / near


def kv_nbytes(work: Work, policy: Policy, alpha: float, tokens: float) -> float:
    """Everything that is stored for `tokens` tokens of each sequence: K and V, and X for a share alpha."""
    kv = work.batch * work.model.layers * offload_read(work.model, tokens, policy.element)
    return (1 - alpha) * kv + x_nbytes(work, alpha, tokens)


def x_nbytes(work: Work, alpha: float, tokens: float) -> float:
    """X of `tokens` tokens of each sequence, all layers, for a share alpha."""
    return alpha * work.batch * tokens * work.model.x_nbytes_per_token()


def written_per_token(model: ModelShape, policy: Policy, alpha: float) -> float:
    """Bytes that a token adds to the media. On cards a spill that does not fill a page still writes one."""
    row = padded(model.head_size) * policy.element
    partial = max(1.0, PAGE_BYTES / (spill_tokens(model, policy) * row)) if policy.place == NEAR else 1.0
    kv = model.layers * offload_read(model, 1, policy.element) * partial
    return (1 - alpha) * kv + alpha * model.x_nbytes_per_token()


def spill_tokens(model: ModelShape, policy: Policy) -> int:
    """Tokens that are written at once; 1 where each is written by itself."""
    if policy.spill == UNITS:
        row = int(padded(model.head_size) * policy.element)
        return math.lcm(TILE_TOKENS * row, PAGE_BYTES) // row
    return max(1, policy.spill)


def small_transfers(model: ModelShape, policy: Policy) -> float:
    """What the host does apart for a pair in a step and layer: pages with q and what waits; writes of K and V."""
    if policy.transfers == ONE:
        return 0.0
    spill = spill_tokens(model, policy)
    return math.ceil(spill * padded(model.head_size) * policy.element / PAGE_BYTES) + 2 / spill
