# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest
from nearkv.errors import UserError
from nearkv.planner.units import (
    CLOCK,
    COMPUTE,
    NUMBER,
    RATE,
    SIZE,
    TIME,
    Kind,
    Limits,
    human_size,
    human_time,
    parse,
    tokens,
)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3.0 GB/s", RATE, 3e9),
        ("4 GiB", SIZE, 2**32),
        ("4GB", SIZE, 4e9),
        ("20 us", TIME, 20e-6),
        ("300 MHz", CLOCK, 3e8),
        ("312 TFLOP/s", COMPUTE, 312e12),
        ("0.6", NUMBER, 0.6),
        (0.6, NUMBER, 0.6),
        ("1_000 B", SIZE, 1000),
    ],
)
def test_units(text: object, kind: Kind, value: float) -> None:
    assert math.isclose(parse(text, kind, "x"), value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("3", RATE), ("3 GB", RATE), ("fast", RATE), ("", SIZE), (3, SIZE), (None, TIME), (True, NUMBER), ("3 gb/s", RATE),
     ("3 GB/s and more", RATE), ("--3 GB/s", RATE)],
)  # fmt: skip
def test_what_is_no_quantity_is_refused_by_name(text: object, kind: Kind) -> None:
    with pytest.raises(UserError, match=r"card\.toml: link is .*" + kind.name):
        parse(text, kind, "card.toml: link")


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 2e15])
def test_what_is_impossible_is_refused_by_name(value: float) -> None:
    with pytest.raises(UserError, match=r"read = .* is impossible; above 0 B/s to 1e\+15 B/s is allowed"):
        Limits(RATE, 0.0, 1e15, above=True).check(value, "read")


@pytest.mark.parametrize(("text", "count"), [("4096", 4096), ("32k", 32768), ("1M", 1 << 20)])
def test_tokens(text: str, count: int) -> None:
    assert tokens(text, "context") == count


@pytest.mark.parametrize("text", ["", "k", "-1", "1.5k", "32kk", "9" * 30])
def test_bad_counts_of_tokens(text: str) -> None:
    with pytest.raises(UserError, match="context is"):
        tokens(text, "context")


def test_people_get_readable_units() -> None:
    assert (human_size(4.295e9), human_time(0.00025), human_time(90)) == ("4.29 GB", "250 us", "1.5 min")
