# SPDX-License-Identifier: Apache-2.0
"""Systems for tests of the planner, from the packaged descriptions, with anything changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from nearkv.planner.hardware import Card, Drive, Gpu, Host
from nearkv.planner.hardware_files import load
from nearkv.planner.models import find_model
from nearkv.planner.plan import Plan, make_plan
from nearkv.planner.system import NEARKV, Policy, System, Work

from tests.support.rtl_tools import found

needs_simpy = pytest.mark.skipif(not found("python:simpy"), reason="not installed: simpy")
needs_matplotlib = pytest.mark.skipif(not found("python:matplotlib"), reason="not installed: matplotlib")


def system(cards: int = 16, *, gpu: str = "a100-40g", host: str = "xeon-h3", card: str = "smartssd") -> System:
    return System(load(gpu, Gpu), load(host, Host), load(card, Card), cards, load("pm9a3", Drive), 4)


def changed(system: System, part: str, **values: Any) -> System:
    """With figures of one part replaced; `card_drive` is the drive of the cards."""
    if part == "card_drive":
        return replace(system, card=replace(system.card, drive=replace(system.card.drive, **values)))
    return replace(system, **{part: replace(getattr(system, part), **values)})


def plan(
    model: str = "opt-66b", context: int = 32768, policy: Policy = NEARKV, at: System | None = None, **work: Any
) -> Plan:
    """Of a packaged model, on sixteen SmartSSDs where nothing else is said."""
    return make_plan(at or system(), Work(find_model(model), context, **work), policy)
