# SPDX-License-Identifier: Apache-2.0
"""Which card holds which (sequence, KV head) pair, or which extents of it: a pure function of the load. Moves nothing.

A pair never leaves its cards while its sequence lives. The result of attention does not depend on the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearkv.pages import WHOLE, Stripe

# Each stripe costs the link another q and another state; more of them than this are not worth it.
_STRIPES_MOST = 8


@dataclass(frozen=True)
class Share:
    """What one card gets of a sequence."""

    card: int
    stripe: Stripe
    heads: tuple[int, ...]


def shares(loads: Sequence[float], kv_heads: int, *, more: int = 0, split: bool = True) -> list[Share]:
    """A new sequence's shares; `loads` holds the pairs that each card has, parts of pairs as fractions.

    Heads stay whole unless there are fewer pairs than cards, those of `more` sequences that are about to come counted:
    then, with `split`, extents go to cards by turns.
    """
    few = sum(loads) + kv_heads * (1 + more) < len(loads)
    count = stripes(len(loads), kv_heads) if split and few else 1
    now, found = list(loads), []
    for first in range(count):
        stripe = Stripe(first, count) if count > 1 else WHOLE
        for card, heads in enumerate(place([load * count for load in now], kv_heads)):
            if heads:
                found.append(Share(card, stripe, heads))
                now[card] += len(heads) / count
    return found


def stripes(cards: int, kv_heads: int) -> int:
    """Into how many stripes a sequence is split where all cards are free: the number with which the card that has most
    has least; the smallest where several do."""
    return min(range(1, _STRIPES_MOST + 1), key=lambda n: (-(-kv_heads * n // cards) / n, n))


def place(loads: Sequence[float], kv_heads: int) -> tuple[tuple[int, ...], ...]:
    """KV heads for each card, ascending; `loads` holds the pairs that each card has already.

    Each head goes to the card with the fewest pairs, the first of them where several have as few.
    """
    if not loads:
        raise ValueError("placement needs at least one card")
    pairs = list(loads)
    heads: list[list[int]] = [[] for _ in loads]
    for head in range(kv_heads):
        card = min(range(len(pairs)), key=pairs.__getitem__)
        pairs[card] += 1
        heads[card].append(head)
    return tuple(tuple(h) for h in heads)
