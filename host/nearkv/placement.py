# SPDX-License-Identifier: Apache-2.0
"""Which card holds which (sequence, KV head) pair: a pure function of the load. Moves nothing.

A pair never leaves its card while its sequence lives. The result of attention does not depend on the choice.
"""

from __future__ import annotations

from collections.abc import Sequence


def place(loads: Sequence[int], kv_heads: int) -> tuple[tuple[int, ...], ...]:
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
