# SPDX-License-Identifier: Apache-2.0
"""Rates and overlap shares from a time line, and the flag of those that no link carries."""

from __future__ import annotations

import pytest
from nearkv.rates import LinkLimits, card_rates, document, flag, rows
from nearkv.timeline import HOST, KERNEL, LINK, READ, Timeline

from tests.support.figures import card_stats

SLOW = LinkLimits("slow", read=1e9, link=2e9)


def timeline(*spans: tuple[int, str, float, float]) -> Timeline:
    found = Timeline()
    for card in range(2):
        found.add_card(f"sw_emu:{card}")
    for span in spans:
        found.add(*span)
    return found


def test_rates_are_bytes_over_the_time_in_which_they_moved() -> None:
    """Reads at one time count once; the second card has none."""
    line = timeline(
        (0, READ, 0.0, 2.0), (0, READ, 1.0, 3.0), (0, READ, 5.0, 6.0), (0, KERNEL, 2.0, 4.0), (0, LINK, 4.0, 4.5),
        (1, KERNEL, 0.0, 1.0), (-1, HOST, 5.5, 6.0),
    )  # fmt: skip
    first, second = card_rates(line, [card_stats(streamed_nbytes=8 * 10**9), card_stats("sw_emu:1?dram=1G")])
    assert (first.read_s, first.read_rate) == (4.0, 2e9)
    assert (first.link_nbytes, first.link_s) == (3000 + 2000 + 700 + 4096, 0.5)
    # Work of 3 s, of which 1 + 0.5 lie in reads; reads of 4 s are the longer.
    assert first.overlap == pytest.approx(1.5 / 3.0)
    assert (second.read_rate, second.link_rate, second.overlap) == (None, None, None)


@pytest.mark.parametrize(("limit", "flagged"), [(1.999e9, True), (2e9, False), (3e9, False), (None, False)])
def test_a_rate_above_the_links_limit_is_flagged(limit: float | None, flagged: bool) -> None:
    found = card_rates(timeline((0, READ, 0.0, 1.0), (0, LINK, 0.0, 1.0)), [card_stats(streamed_nbytes=2 * 10**9)])
    limits = LinkLimits("mine", limit, limit)
    told = {row.name: row.value for row in rows(found, limits)}
    assert told["reads of sw_emu:0"].startswith("2 GB/s in 1.000 s of reading")
    assert ("ABOVE THE LINK'S LIMIT, 2 GB/s of mine" in told["reads of sw_emu:0"]) == flagged
    (card,) = document(found, limits)
    assert (card["read_above_limit"], card["link_above_limit"], card["read_limit_bytes_per_s"]) == (
        flagged,
        False,
        limit,
    )
    assert "ABOVE" not in told["link of sw_emu:0"]


def test_nothing_is_flagged_where_no_limit_is_known() -> None:
    found = card_rates(timeline((0, READ, 0.0, 1e-9)), [card_stats(streamed_nbytes=10**9)])
    assert "ABOVE" not in rows(found, None)[0].value
    assert document(found, None)[0]["read_above_limit"] is False
    assert document(found, None)[0]["read_limit_bytes_per_s"] is None
    assert "ABOVE" in rows(found, SLOW)[0].value
    assert flag(None, 1.0, "x") == ""


def test_a_run_that_moved_nothing_has_no_rows() -> None:
    assert rows(card_rates(timeline(), [card_stats()]), SLOW) == []
