# SPDX-License-Identifier: Apache-2.0
"""docs/validation.md and the table of docs/planner.md are what the model says today."""

from __future__ import annotations

from tests.support.planning import needs_simpy
from tools.planner_pages import pages

pytestmark = needs_simpy


def test_generated_pages_are_up_to_date() -> None:
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run python -m tools.planner_pages"
