# SPDX-License-Identifier: Apache-2.0
"""Spans, shares and the trace document, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.timeline import HOST, KERNEL, LINK, READ, Interval, Timeline, chrome_trace, common, overlap_share, union


def spans(*pairs: tuple[float, float]) -> list[Interval]:
    return [Interval(0, READ, begin, end) for begin, end in pairs]


def test_union_joins_what_touches() -> None:
    assert union(spans((3, 4), (0, 1), (1, 2), (0.5, 0.7), (5, 6))) == [(0, 2), (3, 4), (5, 6)]
    assert union([]) == []


pairs = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)).map(lambda p: (p[0], p[0] + p[1])), max_size=12)


@given(a=pairs, b=pairs)
def test_common_counts_each_moment_once(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    def moments(some: list[tuple[int, int]]) -> set[int]:
        return {moment for begin, end in some for moment in range(begin, end)}

    assert common(union(spans(*a)), union(spans(*b))) == len(moments(a) & moments(b))


@pytest.mark.parametrize(
    ("work", "share"),
    [
        ([(KERNEL, 0, 10)], 1.0),
        ([(KERNEL, 10, 20)], 0.0),
        ([(KERNEL, 5, 10), (LINK, 10, 15), (HOST, 15, 20)], 0.5),
        ([(KERNEL, 2, 3), (LINK, 2.5, 3)], 1.0),  # the shorter one is hidden
    ],
)
def test_overlap_is_a_share_of_the_shorter(work: list[tuple[str, float, float]], share: float) -> None:
    some = [Interval(-1 if what == HOST else 0, what, begin, end) for what, begin, end in work]
    others = [Interval(1, READ, 0, 100), Interval(1, KERNEL, 0, 100)]
    lanes = [Interval(0, READ, 0, 6, 0), Interval(0, READ, 4, 10, 1)]
    assert overlap_share([*lanes, *some, *others], 0) == share


def test_no_share_without_reads_or_work() -> None:
    assert overlap_share(spans((0, 1)), 0) is None
    assert overlap_share([Interval(0, KERNEL, 0, 1)], 0) is None


def test_the_trace_names_cards_and_tracks() -> None:
    timeline = Timeline()
    card = timeline.add_card("sw_emu:0")
    timeline.add(card, KERNEL, 10.0, 10.5)
    timeline.add(card, READ, 10.25, 10.5, 0)
    timeline.add(card, READ, 10.25, 11.0, 3)
    timeline.add(-1, HOST, 11.0, 12.0)
    document = chrome_trace(timeline)
    named = [(e["name"], e["pid"], e["args"]["name"]) for e in document["traceEvents"] if e["ph"] == "M"]
    assert named == [
        ("process_name", 0, "host"),
        ("process_name", 1, "sw_emu:0"),
        ("thread_name", 0, "host"),
        ("thread_name", 1, "P2P read 0"),
        ("thread_name", 1, "P2P read 3"),
        ("thread_name", 1, "kernel"),
    ]
    events = [e for e in document["traceEvents"] if e["ph"] == "X"]
    assert [(e["name"], e["pid"], e["ts"], e["dur"]) for e in events] == [
        ("kernel", 1, 0.0, 500000.0),
        ("P2P read", 1, 250000.0, 250000.0),
        ("P2P read", 1, 250000.0, 750000.0),
        ("host", 0, 1000000.0, 1000000.0),
    ]
    assert len({(e["pid"], e["tid"]) for e in events}) == 4


def test_an_empty_timeline_is_a_document() -> None:
    assert chrome_trace(Timeline())["traceEvents"][0]["args"]["name"] == "host"
