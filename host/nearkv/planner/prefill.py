# SPDX-License-Identifier: Apache-2.0
"""Time to the first token: layer by layer, prompts one after another, with weights, arithmetic and writes side by side.

All layers do the same, so the slowest of the three sets the pace and the other two show at the ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from nearkv.planner import compute
from nearkv.planner.memory import Places
from nearkv.planner.step import drives_rate
from nearkv.planner.system import GPU_ONLY, HOST_FILES, NEAR, PLAIN, Policy, System, Work
from nearkv.planner.traffic import kv_nbytes


@dataclass(frozen=True)
class Prefill:
    """`seconds` until all prompts are in the cache and the first tokens are there; `parts`: each part by itself."""

    seconds: float
    parts: Mapping[str, float]

    @property
    def bottleneck(self) -> str:
        return max(self.parts, key=lambda part: self.parts[part])


def prefill(system: System, work: Work, policy: Policy, alpha: float, places: Places) -> Prefill:
    """Seconds of all prompts of a batch, stage by stage; its longest part hides the others but for the first stage."""
    model, gpu = work.model, system.gpu
    computing = model.layers * work.batch * compute.prefill_layer_s(gpu, model, work.context, 1)
    streamed = places.dram + places.drives
    weights = 0.0 if gpu.in_host_memory else work.batch * streamed / gpu.link
    if places.drives:
        weights = max(weights, work.batch * places.drives / drives_rate(system, policy))
    writing = kv_nbytes(work, policy, alpha, work.context) / write_rate(system, policy)
    parts = {"arithmetic": computing, "weights": weights, "writing K and V": writing}
    stages = model.layers * work.batch
    total = max(parts.values()) + (sum(parts.values()) - max(parts.values())) / stages
    return Prefill(total + compute.head_s(gpu, model, work.batch), parts)


def write_rate(system: System, policy: Policy) -> float:
    """Of new K and V on their way from the GPU to where they stay, infinite where they need none."""
    rates = [math.inf]
    if policy.place != GPU_ONLY and not system.gpu.in_host_memory:
        rates.append(system.gpu.link)
    if policy.place in (NEAR, PLAIN, HOST_FILES):
        rates.append(drives_rate(system, policy, write=True))
    return min(rates)
