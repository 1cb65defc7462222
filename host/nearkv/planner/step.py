# SPDX-License-Identifier: Apache-2.0
"""Simulates decode steps layer by layer until the pace is steady, with any kind of attention between the projections.

Here are the model's own arithmetic and the stream of weights; where K and V lie concerns `near` and `offload`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nearkv.planner import compute
from nearkv.planner.lanes import Lane, Lanes, Span, Steps, new_clock
from nearkv.planner.memory import Places, plain_drives
from nearkv.planner.system import CARD_DRIVES, NEAR, Policy, System, Work

# Layers that are simulated, and those of them that only fill the pipeline. Every layer does the same, so the period of
# the rest is that of all.
LAYERS, FILLING = 14, 6
# Layers behind them that are not counted: their reads and weights come ahead, while the last ones work.
DRAINING = 3
CHUNKS = 8  # pieces in which large transfers share a lane with others
GPU, GPU_LINK, UPLINK, HOST, DRAM = "GPU", "GPU link", "uplink", "host CPU", "host DRAM"


@dataclass(frozen=True)
class Scene:
    """What is simulated, and its lanes."""

    system: System
    work: Work
    policy: Policy
    alpha: float
    places: Places
    lanes: Lanes

    @property
    def env(self) -> Any:
        return self.lanes.env

    def lane(self, name: str) -> Lane:
        return self.lanes.lane(name)


class Attention(Protocol):
    """Attention of a layer, wherever K and V lie."""

    def start(self, layers: int) -> None:
        """Starts what goes on beside the layers, such as reads ahead."""

    def attend(self, layer: int) -> Steps:
        """Ends when the output of the layer's attention is at the GPU; q, k and v are there."""

    def read_weights(self, nbytes: float) -> Steps:
        """Ends when weights that lie on drives have reached the host's end of the GPU link."""


@dataclass(frozen=True)
class Step:
    """One decode step in the steady state. `busy`: seconds per step in which each lane serves; `layer_s`: the period of
    a layer; `head_s`: logits. `spans`: what was when, of all simulated layers, where asked for."""

    seconds: float
    layer_s: float
    head_s: float
    busy: Mapping[str, float]
    spans: tuple[Span, ...] = ()

    @property
    def bottleneck(self) -> str:
        """The lane that is busy longest."""
        return max(self.busy, key=lambda lane: self.busy[lane])


def simulate(system: System, work: Work, policy: Policy, alpha: float, places: Places, *, trace: bool = False) -> Step:
    """The steady decode step. With `trace` as many layers as a step has are simulated, behind those that fill."""
    from nearkv.planner.near import NearAttention
    from nearkv.planner.offload import GpuAttention, HostAttention

    scene = Scene(system, work, policy, alpha, places, Lanes(new_clock(), [] if trace else None))
    attention: Attention
    if policy.place == NEAR:
        attention = NearAttention(scene)
    elif policy.place in ("host-dram", "host-ssd"):
        attention = HostAttention(scene)
    else:
        attention = GpuAttention(scene)
    layers = FILLING + work.model.layers if trace else LAYERS
    return _Run(scene, attention, layers + DRAINING).step()


class _Run:
    """Layers one after another, weights of the next one on their way."""

    def __init__(self, scene: Scene, attention: Attention, layers: int) -> None:
        self._scene, self._attention, self._env, self._count = scene, attention, scene.env, layers
        self._gpu = scene.lane(GPU)
        self._weights = [self._env.event() for _ in range(layers)]
        self._done = [self._env.event() for _ in range(layers)]
        self._ends: list[float] = []

    def step(self) -> Step:
        scene = self._scene
        self._attention.start(self._count)
        self._env.process(self._stream_weights())
        self._env.run(self._env.process(self._layers()))
        begin, end = self._ends[FILLING - 1], self._ends[-1 - DRAINING]
        counted = self._count - FILLING - DRAINING
        layer_s = (end - begin) / counted
        model = scene.work.model
        head = compute.head_s(scene.system.gpu, model, scene.work.batch * scene.work.queries)
        scale = model.layers / counted
        busy = {name: lane.busy_s(begin, end) * scale for name, lane in scene.lanes.made.items()}
        busy[GPU] += head
        spans = tuple(span for span in scene.lanes.spans or () if span.end > begin and span.begin < end)
        return Step(layer_s * model.layers + head, layer_s, head, busy, spans)

    def _layers(self) -> Steps:
        scene = self._scene
        gpu, model, tokens = scene.system.gpu, scene.work.model, scene.work.batch * scene.work.queries
        before = compute.projections_s(gpu, model, tokens)
        after = compute.rest_of_layer_s(gpu, model, tokens)
        for layer in range(self._count):
            yield self._weights[layer]
            yield self._gpu.use(before, "q, k, v")
            yield from self._attention.attend(layer)
            yield self._gpu.use(after, "MLP")
            self._done[layer].succeed()
            self._ends.append(self._env.now)

    def _stream_weights(self) -> Steps:
        """A layer's weights while the one before computes: there is room for two."""
        scene = self._scene
        model, gpu = scene.work.model, scene.system.gpu
        share = model.layer_parameters / model.parameters
        if model.experts > 1:  # experts that nobody asks for are not moved
            used = model.attention_parameters
            used += model.loaded_experts(scene.work.batch * scene.work.queries) * model.expert_parameters  # type: ignore[assignment]
            share *= used / model.layer_parameters
        dram, drives = scene.places.dram * share, scene.places.drives * share
        if gpu.in_host_memory:
            dram = 0.0
        for layer in range(self._count):
            if layer >= 2:
                yield self._done[layer - 2]
            if dram + drives:
                yield self._env.all_of([self._env.process(self._piece(dram, drives)) for _ in range(CHUNKS)])
            self._weights[layer].succeed()

    def _piece(self, dram: float, drives: float) -> Steps:
        """A piece of a layer's weights; pieces follow one another through drives and links."""
        scene = self._scene
        if drives:
            yield from self._attention.read_weights(drives / CHUNKS)
        if not scene.system.gpu.in_host_memory:
            scene.lane(DRAM).use(dram / CHUNKS / scene.system.host.dram_rate, "weights")
            yield scene.lane(GPU_LINK).use((dram + drives) / CHUNKS / scene.system.gpu.link, "weights")


def host_drives_rate(system: System, policy: Policy) -> float:
    """What plain drives deliver to the host together, large requests."""
    drive, count = plain_drives(system, policy)
    link = system.host.uplink if policy.drives == CARD_DRIVES else system.host.drives_link
    return min(count * drive.read, link)
