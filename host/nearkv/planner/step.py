# SPDX-License-Identifier: Apache-2.0
"""Simulates decode steps layer by layer until the pace is steady, with any kind of attention between the projections.

Here are the model's own arithmetic and the stream of weights; where K and V lie concerns `near` and `offload`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Protocol

from nearkv.planner import compute
from nearkv.planner.lanes import Lane, Lanes, Moments, Span, Steps, new_clock
from nearkv.planner.memory import Places, plain_drives
from nearkv.planner.system import CARD_DRIVES, HOST_DRAM, HOST_FILES, NEAR, Policy, System, Work

# Every layer does the same, so once all lanes do what they did some layers before, that is the pace of all. Some
# patterns span several layers: PERIODS are tried. Layers that fill the pipeline, at least; and at most so many are
# simulated: behind them a slow drift is left, which the lanes' own work bounds.
PERIODS, FILLING, LAYERS_MOST = (1, 2, 3, 4), 6, 160
SAME = 1e-11  # of a layer's time
CHUNKS = 8  # pieces in which large transfers share a lane with others
GPU, GPU_LINK, UPLINK, HOST, DRAM = "GPU", "GPU link", "uplink", "host CPU", "host DRAM"
WEIGHTS, X, SPILL = "weights", "X", "spill"  # flows that share lanes with the rest


@dataclass(frozen=True)
class Scene:
    """What is simulated, and its lanes."""

    system: System
    work: Work
    policy: Policy
    alpha: float
    places: Places
    lanes: Lanes
    waves: int = 1  # lists of a layer on a card, each over an equal part of the pages that are read for it

    @property
    def env(self) -> Any:
        return self.lanes.env

    def lane(self, name: str, flow: str = "") -> Lane:
        return self.lanes.lane(name, flow)


class Attention(Protocol):
    """Attention of a layer, wherever K and V lie."""

    def start(self) -> None:
        """Starts what goes on beside the layers, such as reads ahead, without end."""

    def attend(self, layer: int) -> Steps:
        """Ends when the output of the layer's attention is at the GPU; q, k and v are there."""

    def read_weights(self, nbytes: float) -> Steps:
        """Ends when weights that lie on drives have reached the host's end of the GPU link."""


@dataclass(frozen=True)
class Step:
    """One decode step in the steady state. `busy`: seconds of work per step of each lane; `layer_s`: the period of a
    layer; `head_s`: logits. `spans`: what was when, of all layers of a step, where asked for."""

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
    """The steady decode step, with as many lists per layer as are fastest. `trace`: spans of one step.

    More K and V, a slower drive or link never make a step shorter: no flow's order depends on a duration, so no event
    comes sooner when one takes longer, and the choices that remain are those of the smaller problem or fewer.
    """
    from nearkv.planner.near import wave_counts

    scenes = [
        Scene(system, work, policy, alpha, places, Lanes(new_clock()), waves)
        for waves in (wave_counts(system, work, policy, alpha, places) if policy.place == NEAR else [1])
    ]
    best, scene = min(((_Run(scene).step(), scene) for scene in scenes), key=lambda found: found[0].seconds)
    if not trace:
        return best
    return _Run(replace(scene, lanes=Lanes(new_clock(), [])), best.layer_s).step()


class _Run:
    """Layers one after another, weights of the next one on their way. `pace`: the period, where it is known: a step's
    spans are wanted then."""

    def __init__(self, scene: Scene, pace: float | None = None) -> None:
        from nearkv.planner.near import NearAttention
        from nearkv.planner.offload import GpuAttention, HostAttention

        self._scene, self._env, self._pace = scene, scene.env, pace
        place = scene.policy.place
        kind = NearAttention if place == NEAR else HostAttention if place in (HOST_DRAM, HOST_FILES) else GpuAttention
        self._attention: Attention = kind(scene)
        self._gpu = scene.lane(GPU)
        self._weights, self._done = Moments(scene.env), Moments(scene.env)
        self._ends: list[float] = []
        self._ahead: list[list[float]] = []
        self._works: list[dict[str, float]] = []

    def step(self) -> Step:
        scene = self._scene
        self._attention.start()
        self._env.process(self._stream_weights())
        self._env.run(self._env.process(self._layers()))
        model = scene.work.model
        head = compute.head_s(scene.system.gpu, model, scene.work.batch * scene.work.queries)
        layers = self._steady() or PERIODS[-1]
        work = {name: (s - self._works[-1 - layers].get(name, 0.0)) / layers for name, s in self._works[-1].items()}
        layer_s = max((self._ends[-1] - self._ends[-1 - layers]) / layers, *work.values())
        busy = {name: s * model.layers for name, s in work.items()}
        busy[GPU] += head
        begin, end = self._ends[FILLING - 1], self._ends[-1]
        spans = tuple(span for span in scene.lanes.spans or () if span.end > begin and span.begin < end)
        return Step((self._pace or layer_s) * model.layers + head, self._pace or layer_s, head, busy, spans)

    def _layers(self) -> Steps:
        scene = self._scene
        gpu, model, tokens = scene.system.gpu, scene.work.model, scene.work.batch * scene.work.queries
        before = compute.projections_s(gpu, model, tokens)
        after = compute.rest_of_layer_s(gpu, model, tokens)
        most = LAYERS_MOST if self._pace is None else FILLING + model.layers
        for layer in range(most):
            begin = self._env.now
            yield self._weights[layer]
            yield self._gpu.use(before, "q, k, v")
            yield from self._attention.attend(layer)
            yield self._gpu.use(after, "MLP")
            if self._pace is not None and begin + self._pace > self._env.now:
                yield self._env.timeout(begin + self._pace - self._env.now)
            self._done[layer].succeed()
            self._ends.append(self._env.now)
            self._ahead.append(scene.lanes.ahead())
            self._works.append(scene.lanes.work_s())
            if self._pace is None and layer >= FILLING and self._steady():
                return

    def _steady(self) -> int | None:
        """After how many layers everything is as before; None where it is not yet."""
        for period in PERIODS:
            if len(self._ends) > 2 * period + 1 and all(self._same(-1 - i, -1 - i - period) for i in range(period + 1)):
                return period
        return None

    def _same(self, a: int, b: int) -> bool:
        """Whether two layers took as long and left all lanes alike."""
        took = self._ends[a] - self._ends[a - 1]
        there, before = self._ahead[a], self._ahead[b]
        least = SAME * took
        return (
            len(there) == len(before)
            and abs(took - (self._ends[b] - self._ends[b - 1])) <= least
            and all(abs(x - y) <= least for x, y in zip(there, before, strict=True))
        )

    def _stream_weights(self) -> Steps:
        """A layer's weights while the one before computes: there is room for two."""
        scene = self._scene
        model, gpu = scene.work.model, scene.system.gpu
        share = model.layer_parameters / model.parameters
        if model.experts > 1:  # experts that nobody asks for are not moved
            used = model.attention_parameters + model.shared_parameters
            used += model.loaded_experts(scene.work.batch * scene.work.queries) * model.expert_parameters  # type: ignore[assignment]
            share *= used / model.layer_parameters
        dram, drives = scene.places.dram * share, scene.places.drives * share
        if gpu.in_host_memory:
            dram = 0.0
        for layer in count():
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
            scene.lane(DRAM).give(dram / CHUNKS / scene.system.host.dram_rate, "weights")
            yield scene.lane(GPU_LINK, WEIGHTS).use((dram + drives) / CHUNKS / scene.system.gpu.link, "weights")


def drives_rate(system: System, policy: Policy, *, write: bool = False) -> float:
    """What the drives that a policy uses, the cards' own or plain ones, exchange with the host together, large
    requests."""
    host, card = system.host, system.card
    if policy.place == NEAR or policy.drives == CARD_DRIVES:
        return min(system.cards * min(card.drive.best(peer=False, write=write), card.link), host.uplink)
    drive, count = plain_drives(system, policy)
    return min(count * drive.best(peer=False, write=write), host.drives_link)
