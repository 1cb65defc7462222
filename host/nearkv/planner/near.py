# SPDX-License-Identifier: Apache-2.0
"""Attention on the cards, simulated: messages down, pages from drive to FPGA memory, kernel, outputs up, spills, X.

Cards that do the same are one lane each of drive, kernel and link; what they share (uplink, host, GPU) counts them all.
"""

from __future__ import annotations

import math
from typing import Any

from nearkv.planner import compute
from nearkv.planner.kernel import JobShape, cycles, fitted
from nearkv.planner.lanes import Lane, Steps
from nearkv.planner.step import GPU, GPU_LINK, HOST, UPLINK, Scene
from nearkv.planner.system import ONE
from nearkv.planner.traffic import (
    EXTENT,
    PAGE,
    Share,
    link_down,
    link_up,
    padded,
    pair_nbytes,
    shares,
    small_transfers,
    spill_tokens,
)

WAVE = 64e6  # bytes that are staged at once, where a layer has no more than WAVES of them
WAVES = 16
BUFFERS = 4  # staging buffers of a card
IN_FLIGHT = 16  # reads at a time
# What this program sends down with a list: the message, and what clears statuses and outputs before the start.
DOWN_TRANSFERS = 2
X_PIECES, X_UNDER_WAY = 16, 6  # of a layer's X; pieces that are read, moved or computed at a time
# Share of the peak that the DDR4 model gives a master that only reads (docs/rtl.md).
MEMORY_SHARE = 0.95


class NearAttention:
    """See `step.Attention`."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        found = shares(scene.system, scene.work, scene.policy, scene.alpha)
        # With everything in X the cards are only drives.
        found = found or [Share(scene.system.cards, 0, 0)]
        self._groups = [Group(scene, share) for share in found]
        self._begin: list[Any] = []  # q, k and v of a layer are there
        self._staged: list[Any] = []  # and what the host does before pages are read is done
        self._x: list[Any] = []  # attention over X of a layer is done

    def start(self, layers: int) -> None:
        env = self._scene.env
        self._begin, self._staged, self._x = ([env.event() for _ in range(layers)] for _ in range(3))
        for group in self._groups:
            group.start(layers, self._staged)
        if self._scene.alpha:
            env.process(self._x_cache(layers))

    def attend(self, layer: int) -> Steps:
        scene = self._scene
        model, policy, host = scene.work.model, scene.policy, scene.system.host
        self._begin[layer].succeed()
        pairs = sum(group.share.cards * group.share.pairs for group in self._groups)
        transfers = small_transfers(model, policy)
        if transfers:
            yield scene.lane(HOST).use(pairs * transfers * host.page_copy, "transfers, one by one")
        else:
            yield scene.lane(HOST).use(pairs * host.job, "lists")
        self._staged[layer].succeed()
        down, up = (pairs * f(model, scene.work.queries, policy) for f in (link_down, link_up))
        yield scene.lane(UPLINK).use(down / host.uplink, "q, k, v")
        ends = [scene.env.process(group.attend(layer)) for group in self._groups if group.share.pairs]
        if scene.alpha:
            ends.append(self._x[layer])
        yield scene.env.all_of(ends)
        yield scene.lane(UPLINK).use(up / host.uplink, "outputs")

    def read_weights(self, nbytes: float) -> Steps:
        yield from self._from_drives(nbytes, "weights")

    def _from_drives(self, nbytes: float, what: str) -> Steps:
        """Bytes that lie evenly on all drives, to the host."""
        system = self._scene.system
        each = nbytes / system.cards / min(system.card.drive.read, system.card.link)
        yield self._scene.env.all_of([group.drive.use(each, what) for group in self._groups])
        yield self._scene.lane(UPLINK).use(nbytes / system.host.uplink, what)

    def _x_cache(self, layers: int) -> Steps:
        """X in pieces: read, moved to the GPU, made into K and V there and attended to, a few pieces under way."""
        scene = self._scene
        env, work, gpu = scene.env, scene.work, scene.system.gpu
        nbytes = scene.alpha * work.batch * work.context * work.model.hidden * 2.0 / X_PIECES
        pairs = scene.alpha * work.batch * work.model.kv_heads
        recompute = compute.recompute_s(gpu, work.model, scene.alpha, work.batch, work.context)
        attend = compute.attention_s(gpu, work.model, pairs, work.context, work.queries, 2)
        ends = [env.event() for _ in range(layers * X_PIECES)]

        def piece(number: int) -> Steps:
            layer = number // X_PIECES
            yield from self._from_drives(nbytes, "X")
            yield scene.lane(GPU_LINK).use(nbytes / gpu.link, "X")
            yield self._begin[layer]
            yield scene.lane(GPU).use((recompute + attend) / X_PIECES, "K, V from X")
            ends[number].succeed()
            if number % X_PIECES == X_PIECES - 1:
                self._x[layer].succeed()

        for number in range(layers * X_PIECES):
            if not scene.policy.read_ahead:
                yield self._begin[number // X_PIECES]
            if number >= X_UNDER_WAY:
                yield ends[number - X_UNDER_WAY]
            env.process(piece(number))


class Group:
    """Cards that do the same, as one drive, one kernel and one link."""

    def __init__(self, scene: Scene, share: Share) -> None:
        self.share = share
        self._scene, self._env = scene, scene.env
        suffix = f" of {share.cards} cards with {share.pairs:g} heads x {share.tokens:g} tokens"
        self.drive: Lane = scene.lane(f"drive{suffix}")
        self._kernel: Lane = scene.lane(f"kernel{suffix}")
        self._link: Lane = scene.lane(f"card link{suffix}")
        model, policy = scene.work.model, scene.policy
        self._nbytes = share.pairs * pair_nbytes(model, share.tokens, policy.element)
        self._streamed = self._nbytes * (1 - scene.places.resident)
        self._waves = max(1, min(WAVES, math.ceil(self._streamed / WAVE))) if self._streamed >= 1 else 0
        self._read: list[Any] = []
        self._used: list[Any] = []

    def start(self, layers: int, begin: list[Any]) -> None:
        count = layers * self._waves
        self._read = [self._env.event() for _ in range(count)]
        self._used = [self._env.event() for _ in range(count)]
        if self.share.pairs:
            self._env.process(self._reads(layers, begin))

    def attend(self, layer: int) -> Steps:
        scene = self._scene
        card, model, policy, queries = scene.system.card, scene.work.model, scene.policy, scene.work.queries
        down, up = (self.share.pairs * f(model, queries, policy) for f in (link_down, link_up))
        transfers = DOWN_TRANSFERS if policy.transfers == ONE else 1
        yield self._link.use(transfers * card.dma + down / card.link, "q, k, v")
        if not self._waves:
            yield self._kernel.use(self.kernel_s(self._nbytes, streaming=False), "attention")
        end = (layer + 1) * self._waves
        for wave in range(layer * self._waves, end):
            yield self._read[wave]
            # The last list takes what stayed in card memory too.
            here = self._nbytes - self._streamed if wave == end - 1 else 0.0
            yield self._kernel.use(self.kernel_s(self._streamed / self._waves + here, streaming=True), "attention")
            self._used[wave].succeed()
        yield self._link.use(card.dma + up / card.link, "outputs")
        if policy.spill:
            self.drive.use(self._spill_s(spill_tokens(model, policy)), "spill")

    def kernel_s(self, nbytes: float, *, streaming: bool) -> float:
        """One list over so many bytes of K and V of this card's pairs. Pages that arrive meanwhile take bandwidth."""
        scene = self._scene
        card, work = scene.system.card, scene.work
        whole = card.memory_rate * MEMORY_SHARE
        # Pages do not arrive faster than the kernel uses them up for long: at most half of the memory's rate.
        slowest = nbytes / (max(whole - card.drive.p2p_read, whole / 2) if streaming else whole)
        jobs = max(1.0, self.share.pairs * nbytes / self._nbytes) if self._nbytes else 1.0
        fixed = scene.policy.kernel_rate or card.kernel_rate
        if fixed:
            own = card.job * jobs if scene.policy.kernel_rate is None else 0.0
            return card.launch + own + max(slowest, nbytes / fixed)
        tokens = nbytes / pair_nbytes(work.model, 1, scene.policy.element)  # of all pairs
        shape = JobShape(work.model.head_size, work.model.group * work.queries, math.ceil(tokens / jobs), work.queries)
        return card.launch + max(slowest, cycles(shape, jobs, fitted()) / card.clock)

    def _reads(self, layers: int, begin: list[Any]) -> Steps:
        """Waves in order, as long as a staging buffer is free."""
        scene = self._scene
        drive, policy = scene.system.card.drive, scene.policy
        request = self._request_nbytes()
        wave_s = self._streamed / max(1, self._waves) / request * drive.request_s(request, IN_FLIGHT, peer=True)
        for layer in range(layers):
            if not policy.read_ahead:
                yield begin[layer]
            if not policy.spill:
                yield self.drive.use(self._spill_s(1), "new rows")
            for wave in range(layer * self._waves, (layer + 1) * self._waves):
                if wave >= BUFFERS:
                    yield self._used[wave - BUFFERS]
                yield self.drive.use(wave_s, "read")
                self._read[wave].succeed()

    def _request_nbytes(self) -> float:
        """What touches on flash: extents of 128 tokens of the KV heads that a card has of a sequence."""
        model, work = self._scene.work.model, self._scene.work
        heads = max(1.0, min(float(model.kv_heads), self.share.pairs / work.batch))
        return min(heads * pair_nbytes(model, EXTENT, self._scene.policy.element), max(PAGE, self._streamed))

    def _spill_s(self, spill: int) -> float:
        """Writes of one step and layer: a request of `spill` tokens per pair for K and for V, every `spill` steps. Less
        than a page is a page read, changed and written."""
        drive, policy = self._scene.system.card.drive, self._scene.policy
        nbytes = spill * padded(self._scene.work.model.head_size) * policy.element
        size = math.ceil(nbytes / PAGE) * PAGE
        seconds = drive.request_s(size, 1, peer=True, write=True)
        if nbytes < PAGE:
            seconds += drive.request_s(PAGE, 1, peer=True)
        return 2 * self.share.pairs * self._scene.work.queries / spill * seconds
