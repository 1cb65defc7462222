# SPDX-License-Identifier: Apache-2.0
"""Values of a sweep, and plans for them."""

from __future__ import annotations

import pytest
from nearkv.errors import UserError
from nearkv.planner.models import find_model
from nearkv.planner.sweep import parse_sweep, points, run_sweep
from nearkv.planner.system import NEARKV, Work

from tests.support.planning import needs_simpy, system

pytestmark = needs_simpy


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("context=4k..32k", (4096, 8192, 16384, 32768)),
        ("batch=1..5", (1, 2, 4, 5)),
        ("cards=2..2", (2,)),
        ("drafts=0..5", (0, 1, 2, 4, 5)),
        ("drafts=0..0", (0,)),
        ("drafts=0..8:3", (0, 4, 8)),
        ("drafts=0..2:100", (0, 1, 2)),
        ("batch=1..4:3", (1, 2, 4)),
    ],
)
def test_sweeps(text: str, values: tuple[int, ...]) -> None:
    assert parse_sweep(text).values == values


def test_a_sweep_of_points() -> None:
    sweep = parse_sweep("context=4k..128k:100")
    assert (len(sweep.values), sweep.values[0], sweep.values[-1]) == (100, 4096, 131072)


@pytest.mark.parametrize(
    "text",
    ["", "context", "context=4k", "speed=1..2", "context=8k..4k", "context=0..4", "context=1..2:1", "context=1..2:9999",
     "context=-1..4", "context=1..2:", "batch=0..4", "output=0..4:3", "cards=0..2"],
)  # fmt: skip
def test_bad_sweeps(text: str) -> None:
    with pytest.raises(UserError, match="sweep"):
        parse_sweep(text)


def test_sweep_over_cards_beyond_reason() -> None:
    with pytest.raises(UserError, match="cards is 8192; 1 to 4096 is allowed"):
        points(parse_sweep("cards=4k..8k"), system(), Work(find_model("opt-30b"), 1024))
    found = run_sweep(points(parse_sweep("cards=2..4"), system(), Work(find_model("opt-30b"), 1024)), [NEARKV])
    assert [row[0].system.cards for row in found] == [2, 4]
