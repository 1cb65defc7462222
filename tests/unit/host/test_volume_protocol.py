# SPDX-License-Identifier: Apache-2.0
"""Every interleaving of session, two writers and a crash: the documented order keeps its promises, no other does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.volume_protocol import Rules, Violation, explore

SCRIPTS = {
    "grows": [("say", i) for i in range(1, 8)],
    "crops": [*(("say", i) for i in range(1, 7)), ("crop", 1), *(("say", i) for i in range(11, 16))],
    "flushes": [
        *(("say", i) for i in range(1, 5)),
        ("flush", 0),
        ("say", 5),
        ("flush", 0),
        ("say", 6),
        ("crop", 3),
        ("say", 13),
        ("flush", 0),
        ("say", 14),
        ("crop", 4),
        ("say", 15),
        ("say", 16),
    ],
}


@pytest.mark.parametrize("every", [1, 3, 0])
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_documented_order_keeps_every_promise(name: str, every: int) -> None:
    """However often the journal is synced: K and V are never of more tokens than it has, nor of others."""
    assert explore(SCRIPTS[name], Rules(every=every)) > 50


@pytest.mark.parametrize(
    ("rule", "every", "text"),
    [
        ("sync_before_index", 1, "the index names"),
        ("journal_before_told", 1, "told were"),
        ("new_part_for_tail", 1, "the index names"),
        ("crop_waits", 1, "the cards hold different tokens"),
        ("journal_before_index", 3, "K and V of"),
        ("journal_before_index", 0, "K and V of"),
    ],
)
def test_each_rule_counts(rule: str, every: int, text: str) -> None:
    rules = replace(Rules(every=every), **{rule: False})  # type: ignore[arg-type]

    def explore_all() -> None:
        for script in SCRIPTS.values():
            explore(script, rules)

    with pytest.raises(Violation, match=text):
        explore_all()
