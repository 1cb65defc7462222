# SPDX-License-Identifier: Apache-2.0
"""A step as a document that a viewer of traces reads."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from nearkv.planner.models import find_model
from nearkv.planner.plan import make_plan
from nearkv.planner.system import HILOS, IN_GPU, NEAR, NEARKV, POLICIES, Policy, Work
from nearkv.planner.trace import trace_document

from tests.support.planning import needs_simpy, system

pytestmark = needs_simpy


@pytest.mark.parametrize(
    ("policy", "context"),
    [
        (NEARKV, 16384),
        (replace(NEARKV, weights_on_drives=True, hit=0.5), 4096),
        (replace(HILOS, alpha=0.5), 16384),
        (POLICIES["host-ssd"], 8192),
        (POLICIES["plain-ssd"], 8192),
        (IN_GPU, 512),
    ],
)
def test_a_trace_is_one_step_whose_lanes_serve_one_thing_at_a_time(policy: Policy, context: int) -> None:
    """As a viewer reads it: complete events of named threads, none before the begin, and none beside another."""
    found = make_plan(system(), Work(find_model("opt-30b"), context), policy, trace=True)
    told = json.loads(json.dumps(trace_document(found)))
    names = [event for event in told["traceEvents"] if event["ph"] == "M"]
    events = [event for event in told["traceEvents"] if event["ph"] == "X"]
    assert len(names) + len(events) == len(told["traceEvents"])
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in names if e["name"] == "thread_name"}
    assert {"GPU"} <= set(threads.values())
    assert {"uplink"} <= set(threads.values()) or policy.place != NEAR
    assert len(set(threads.values())) == len(threads)
    assert {e["args"]["name"] for e in names if e["name"] == "process_name"} == {"host", "16 x smartssd"}
    assert all(e["ts"] >= 0 and e["dur"] > 0 and e["name"] for e in events)
    for thread in threads:
        served = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if (e["pid"], e["tid"]) == thread)
        assert served
        assert all(a[1] <= b[0] + 1e-3 for a, b in pairwise(served)), threads[thread]  # a thousandth of a us: rounding
    assert {(e["pid"], e["tid"]) for e in events} == set(threads)
    layers = sum(e["name"] == "MLP" for e in events)
    assert layers == find_model("opt-30b").layers
    length = (max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events)) / 1e6
    assert length == pytest.approx(found.step.seconds, rel=0.2)
