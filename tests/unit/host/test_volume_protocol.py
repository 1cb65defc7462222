# SPDX-License-Identifier: Apache-2.0
"""Every interleaving of session, two writers and a crash: the documented order keeps its promises, no other does."""

from __future__ import annotations

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


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_documented_order_keeps_every_promise(name: str) -> None:
    assert explore(SCRIPTS[name], Rules()) > 50


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("sync_before_index", "the index names"),
        ("journal_before_told", "told were"),
        ("new_part_for_tail", "the index names"),
        ("crop_waits", "the cards hold different tokens"),
    ],
)
def test_each_rule_counts(rule: str, text: str) -> None:
    def explore_all() -> None:
        for script in SCRIPTS.values():
            explore(script, Rules(**{rule: False}))

    with pytest.raises(Violation, match=text):
        explore_all()
