# SPDX-License-Identifier: Apache-2.0
"""Makes an empty sequence over a store's cards: memory for its tails, and with a name its rows in their indexes. All of
it, or nothing and an error.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from nearkv import copies
from nearkv.card_store import CardStore
from nearkv.layout import ModelLayout
from nearkv.placement import shares
from nearkv.sequence import Part, SequenceState
from nearkv.tail import Tail, WriteBuffer


def new_sequence(
    number: int, name: str | None, cards: Sequence[CardStore], layout: ModelLayout, buffer: WriteBuffer, more: int = 0
) -> SequenceState:
    """Known as `number`; heads, and without a name tokens, are spread over the cards by what these hold already, and
    with an eye to `more` of them that come next."""
    loads = [sum(len(s.heads) / s.stripe.of for s in card.sequences) for card in cards]
    parts: list[Part] = []
    with ExitStack() as undo:
        # The index of a volume knows whole heads only, so a named sequence is not split by tokens.
        for share in shares(loads, layout.kv_heads, more=more, split=name is None):
            card = cards[share.card]
            data = card.add(share.heads, share.stripe)
            undo.callback(card.remove, data, keep_pages=False)
            parts.append(Part(share.card, card, data))
        tail = Tail(layout, buffer)
        undo.callback(tail.close)
        state = SequenceState(number, name, tail, tuple(parts))
        if name is not None:
            _index(state, name)
        undo.pop_all()
    return state


def _index(state: SequenceState, name: str) -> None:
    """Enters it into the index of every card that holds part of it; takes it back when one fails."""
    try:
        for part in state.parts:
            part.data.record = part.card.volume.index.create(name, part.data.heads, time.time_ns())
    except BaseException:
        # By name: a call may be broken off behind a transaction, before its number is known here.
        for part in state.parts:
            copies.remove(part.card.volume, name)
        raise
