# SPDX-License-Identifier: Apache-2.0
"""What sessions record of a model, from the first versions on, is told from what another model would record."""

from __future__ import annotations

import pytest
from nearkv.session.recorded_model import difference, foreign

WEIGHTS, OTHER, SETTINGS = "0a" * 16, "0b" * 16, "0c" * 8
HERE = WEIGHTS + SETTINGS


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        ("", ""),
        (WEIGHTS, ""),
        (HERE, ""),
        (OTHER, "weights"),
        (OTHER + SETTINGS, "weights"),
        (WEIGHTS + "0d" * 8, "settings"),
        ("x", "weights"),
    ],
)
def test_what_differs_is_told_as_far_as_it_is_recorded(recorded: str, told: str) -> None:
    assert difference(recorded, HERE)[: len(told) or None] == told
    assert difference(foreign(recorded, "0123456789abcdef"), HERE)[: len(told) or None] == told


@pytest.mark.parametrize("recorded", [HERE, WEIGHTS])
def test_a_foreign_one_is_like_no_other(recorded: str) -> None:
    found = {recorded, HERE, WEIGHTS, foreign(recorded, "1"), foreign(recorded, "2")}
    assert len(found) == len({HERE, WEIGHTS}) + 2
    assert foreign(foreign(recorded, "2"), "1") == foreign(recorded, "1")  # an import of what was imported elsewhere
    assert foreign("", "1") == ""
