# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from nearkv.planner.validation import GOAL, Figure, Target, constants, targets

from tests.support.planning import needs_simpy

pytestmark = needs_simpy
# Targets that miss; docs/validation.md has the reasons. A change that makes another one miss, or cures one, shows here.
MISSES = {6, 9}


@pytest.fixture(scope="module")
def found() -> tuple[Target, ...]:
    return targets()


def test_eleven_of_thirteen_targets_are_met(found: tuple[Target, ...]) -> None:
    numbered = [target for target in found if target.number]
    assert [target.number for target in numbered] == list(range(1, 14))
    assert {target.number for target in numbered if abs(target.error) > GOAL} == MISSES


def test_no_target_is_far_off(found: tuple[Target, ...]) -> None:
    for target in found:
        assert abs(target.error) < 0.25, target.title


def test_every_target_has_its_source(found: tuple[Target, ...]) -> None:
    for target in found:
        assert target.grade.startswith(("primary", "notes"))
        assert target.figures
        assert target.met or target.note, f"{target.title} misses without a reason"


def test_constants_are_those_of_the_files() -> None:
    told = {constant.name: constant.value for constant in constants()}
    assert told["host.attention"] == "13.1 GB/s"
    assert len(told) == 5
    assert all(constant.source for constant in constants())


@pytest.mark.parametrize(
    ("figure", "error"),
    [
        (Figure("x", (2, 2), (2.2, 2.2)), 0.1),
        (Figure("x", (2, 2), (1.8, 1.8)), -0.1),
        (Figure("inside, but to one side", (1.0, 3.0), (2.0, 2.4)), 0.1),
        (Figure("reaches above", (1.0, 2.0), (1.0, 2.4)), 0.2),
        (Figure("reaches below", (1.0, 2.0), (0.7, 2.0)), -0.3),
        (Figure("below a bound", (0.7, 0.7), (0.1, 0.1), bound=True), 0.0),
        (Figure("above a bound", (0.5, 0.5), (0.6, 0.6), bound=True), 0.2),
    ],
)
def test_errors(figure: Figure, error: float) -> None:
    assert figure.error == pytest.approx(error)
