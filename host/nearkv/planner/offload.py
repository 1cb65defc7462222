# SPDX-License-Identifier: Apache-2.0
"""Attention without cards, simulated: on the host's CPU as FlexGen does it, on the GPU over links, or in its memory."""

from __future__ import annotations

from itertools import count
from typing import Any

from nearkv.layout import ELEMENT_NBYTES
from nearkv.planner import compute
from nearkv.planner.lanes import Moments, Steps
from nearkv.planner.step import CHUNKS, DRAM, GPU, GPU_LINK, HOST, WEIGHTS, Scene, drives_rate
from nearkv.planner.system import GPU_ONLY, HOST_FILES, PLAIN
from nearkv.planner.traffic import offload_read

DRIVES = "drives"


class _OnDrives:
    """Weights from the host's plain drives."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def read_weights(self, nbytes: float) -> Steps:
        yield self._scene.lane(DRIVES, WEIGHTS).use(
            nbytes / drives_rate(self._scene.system, self._scene.policy), "weights"
        )


class HostAttention(_OnDrives):
    """K and V in host memory or in files; the CPU converts and attends, and its copy threads read the files: one after
    the other. See `step.Attention`."""

    def start(self) -> None:
        """Nothing goes on beside the layers."""

    def attend(self, layer: int) -> Steps:
        scene = self._scene
        host, model, work, gpu = scene.system.host, scene.work.model, scene.work, scene.system.gpu
        nbytes = work.batch * offload_read(model, work.context, scene.policy.element)
        cpu = scene.lane(HOST)
        rows = work.batch * work.queries * model.head_size * ELEMENT_NBYTES
        yield scene.lane(GPU_LINK).use(rows * (model.heads + 2 * model.kv_heads) / gpu.link, "q, k, v")
        if scene.policy.place == HOST_FILES:
            rate = min(drives_rate(scene.system, scene.policy), host.file_rate)
            scene.lane(DRIVES).give(nbytes / rate, "K, V")
            yield cpu.use(nbytes / rate, "K, V from files")
        scene.lane(DRAM).give(nbytes / host.dram_rate, "K, V")
        yield cpu.use(nbytes / host.attention, "attention")
        yield scene.lane(GPU_LINK).use(rows * model.heads / gpu.link, "outputs")


class GpuAttention(_OnDrives):
    """K and V stream through the GPU from host memory or drives, read ahead, or stay in its memory."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._ready, self._used = Moments(scene.env), Moments(scene.env)  # pieces
        work = scene.work
        self._nbytes = work.batch * offload_read(work.model, work.context, scene.policy.element)

    def start(self) -> None:
        if self._scene.policy.place != GPU_ONLY:
            self._scene.env.process(self._stream())

    def attend(self, layer: int) -> Steps:
        scene = self._scene
        work, gpu = scene.work, scene.lane(GPU)
        pairs = work.batch * work.model.kv_heads
        seconds = compute.attention_s(
            scene.system.gpu, work.model, pairs, work.context, work.queries, scene.policy.element
        )
        if scene.policy.place == GPU_ONLY:
            yield gpu.use(seconds, "attention")
            return
        for number in range(layer * CHUNKS, (layer + 1) * CHUNKS):
            yield self._ready[number]
            yield gpu.use(seconds / CHUNKS, "attention")
            self._used[number].succeed()

    def _stream(self) -> Steps:
        """Pieces in order; two of them find room."""
        scene = self._scene
        link, piece = scene.lane(GPU_LINK, "K, V"), self._nbytes / CHUNKS
        for number in count():
            if number >= 2:
                yield self._used[number - 2]
            if scene.policy.place == PLAIN:
                yield scene.lane(DRIVES).use(piece / drives_rate(scene.system, scene.policy), "K, V")
            else:
                scene.lane(DRAM).give(piece / scene.system.host.dram_rate, "K, V")
            if not scene.system.gpu.in_host_memory:
                scene.env.process(self._arrive(link.use(piece / scene.system.gpu.link, "K, V"), number))
            else:
                self._ready[number].succeed()

    def _arrive(self, moved: Any, number: int) -> Steps:
        yield moved
        self._ready[number].succeed()
