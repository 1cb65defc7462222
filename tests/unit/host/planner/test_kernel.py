# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from nearkv.planner.kernel import JobShape, cycles, fitted, nbytes_per_cycle


def test_one_beat_per_cycle_is_the_most() -> None:
    for rows in (1, 3, 8):
        assert 48 < nbytes_per_cycle(JobShape(128, rows, 32768), fitted()) <= 64


@pytest.mark.parametrize(("rows", "share"), [(16, 0.5), (64, 0.125)])
def test_more_rows_walk_the_array_again(rows: int, share: float) -> None:
    """docs/rtl.md: 16 rows can reach half a word per cycle, 64 an eighth."""
    rate = nbytes_per_cycle(JobShape(64, rows, 4096), fitted())
    assert 0.9 * share * 64 < rate <= share * 64


def test_more_work_takes_longer() -> None:
    base = JobShape(128, 8, 4096)
    least = cycles(base, 4, fitted())
    for more in (JobShape(128, 8, 8192), JobShape(256, 8, 4096), JobShape(128, 9, 4096)):
        assert cycles(more, 4, fitted()) > least
    assert cycles(base, 5, fitted()) > least
