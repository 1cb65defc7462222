# SPDX-License-Identifier: Apache-2.0
"""Work, policies and counts that are refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from nearkv.errors import UserError
from nearkv.planner.models import find_model
from nearkv.planner.system import NEARKV, Work, parse_cards, parse_drives


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("context", 0, "context is 0; 1 to"),
        ("context", 1 << 40, "context is 1099511627776"),
        ("context", 1.5, "context is 1.5; a whole number"),
        ("batch", -1, "batch is -1"),
        ("output", 0, "output is 0"),
        ("drafts", 64, "drafts is 64; 0 to 63"),
        ("acceptance", 1.0, "acceptance is 1.0"),
        ("acceptance", float("nan"), "acceptance is nan"),
        ("batch", True, "batch is True"),
    ],
)
def test_impossible_work_is_refused_by_name(name: str, value: Any, named: str) -> None:
    with pytest.raises(UserError, match=named):
        Work(find_model("opt-30b"), **{"context": 1024, name: value})


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"hit": 1.5}, "hit is 1.5"), ({"alpha": -0.1}, "alpha is -0.1"), ({"element": 3}, "of 3 bytes")],
)
def test_impossible_policies_are_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=named):
        replace(NEARKV, **changes)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("0xsmartssd", "are '0xsmartssd'; a count from 1 to 4096 is expected"),
        ("99999xsmartssd", "are '99999xsmartssd'; a count from 1 to 4096 is expected"),
        ("", "are ''; a count and a name such as"),
        ("16x", "is called '16x'"),
        ("x", "is called 'x'"),
        ("3xnosuch", "is called 'nosuch'"),
        ("-1xsmartssd", "is called '-1xsmartssd'"),
    ],
)
def test_bad_counts_of_cards_and_drives(text: str, named: str) -> None:
    with pytest.raises(UserError, match=named):
        parse_cards(text)
    with pytest.raises(UserError, match=named):
        parse_drives(text)


def test_counts_of_cards_and_drives() -> None:
    assert [parse_cards(text)[0] for text in ("smartssd", "16xsmartssd", "4096xu50-nvme")] == [1, 16, 4096]
    count, drive = parse_drives("2xgen5-nvme")
    assert (count, drive.name) == (2, "gen5-nvme")
