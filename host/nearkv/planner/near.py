# SPDX-License-Identifier: Apache-2.0
"""Attention on the cards, simulated: messages down, pages from drive to FPGA memory, kernel, outputs up, spills, X.

Cards that do the same are one lane each of drive, kernel and link; what they share (uplink, host, GPU) counts them all.
"""

from __future__ import annotations

import math
from itertools import count

from nearkv_driver.regmap import PAGE_BYTES
from nearkv_driver.sizes import padded

from nearkv.planner import compute
from nearkv.planner.kernel import JobShape, cycles, fitted
from nearkv.planner.lanes import Lane, Moments, Steps
from nearkv.planner.memory import Places
from nearkv.planner.step import GPU, GPU_LINK, HOST, SPILL, UPLINK, WEIGHTS, Scene, X
from nearkv.planner.system import ONE, Policy, System, Work
from nearkv.planner.traffic import (
    EXTENT,
    Share,
    link_down,
    link_up,
    pair_nbytes,
    shares,
    small_transfers,
    spill_tokens,
    x_nbytes,
)

WAVE = 64e6  # bytes that are staged at once, where a layer has no more than the most WAVES of them
WAVES = (1, 4, 16)
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
        env = scene.env
        self._begin = Moments(env)  # q, k and v of a layer are there
        self._staged = Moments(env)  # and what the host does before pages are read is done
        self._x = Moments(env)  # attention over X of a layer is done
        self._used = Moments(env)  # a piece of X is

    def start(self) -> None:
        for group in self._groups:
            self._scene.env.process(group.reads(self._staged, self._used))
        if self._scene.alpha:
            self._scene.env.process(self._x_cache())

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
        """They lie evenly on all drives."""
        system = self._scene.system
        each = nbytes / system.cards / min(system.card.drive.read, system.card.link)
        lanes = [self._scene.lane(group.drive.name, WEIGHTS) for group in self._groups]
        yield self._scene.env.all_of([lane.use(each, "weights") for lane in lanes])
        yield self._scene.lane(UPLINK, WEIGHTS).use(nbytes / system.host.uplink, "weights")

    def _x_cache(self) -> Steps:
        """X in pieces: read by all drives among their waves, moved to the GPU, made into K and V there and attended to,
        a few pieces under way."""
        scene = self._scene
        work, gpu = scene.work, scene.system.gpu
        nbytes = x_piece_nbytes(scene)
        pairs = scene.alpha * work.batch * work.model.kv_heads
        recompute = compute.recompute_s(gpu, work.model, scene.alpha, work.batch, work.context)
        attend = compute.attention_s(gpu, work.model, pairs, work.context, work.queries, 2)

        def piece(number: int) -> Steps:
            layer = number // X_PIECES
            yield scene.lane(UPLINK, X).use(nbytes / scene.system.host.uplink, "X")
            yield scene.lane(GPU_LINK, X).use(nbytes / gpu.link, "X")
            yield self._begin[layer]
            yield scene.lane(GPU).use((recompute + attend) / X_PIECES, "K, V from X")
            self._used[number].succeed()
            if number % X_PIECES == X_PIECES - 1:
                self._x[layer].succeed()

        for number in count():
            yield scene.env.all_of([group.read_x[number] for group in self._groups])
            scene.env.process(piece(number))


def x_piece_nbytes(scene: Scene) -> float:
    """Bytes of stored activations (FP16) that are read at once."""
    return x_nbytes(scene.work, scene.alpha, scene.work.context) / scene.work.model.layers / X_PIECES


def wave_counts(system: System, work: Work, policy: Policy, alpha: float, places: Places) -> list[int]:
    """In how many lists a layer's pages may be attended to on a card: a list's pages fit in a staging buffer. Many let
    the kernel begin early, few have few starts. With X there are as many as pieces of X."""
    if alpha:
        return [X_PIECES]
    dealt = shares(system, work, policy, alpha)
    streamed = max((s.pairs * pair_nbytes(work.model, s.tokens, policy.element) for s in dealt), default=0.0)
    streamed *= 1 - places.resident
    return [waves for waves in WAVES if streamed / waves <= WAVE or waves == WAVES[-1]]


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
        self._waves = scene.waves if self._streamed >= 1 else 0
        self._written = Moments(self._env)  # new rows of a layer, where the step waits for them
        self._read, self._used = Moments(self._env), Moments(self._env)  # waves
        self.read_x = Moments(self._env)  # this card's part of a piece of X

    def attend(self, layer: int) -> Steps:
        scene = self._scene
        card, model, policy, queries = scene.system.card, scene.work.model, scene.policy, scene.work.queries
        down, up = (self.share.pairs * f(model, queries, policy) for f in (link_down, link_up))
        transfers = DOWN_TRANSFERS if policy.transfers == ONE else 1
        yield self._link.use(transfers * card.dma + down / card.link, "q, k, v")
        if not policy.spill:
            yield self._written[layer]
        if not self._waves:
            yield self._kernel.use(self.kernel_s(1), "attention")
        # Waves are filled sequence by sequence, so what a sequence has in card memory is spread over them too.
        for wave in range(layer * self._waves, (layer + 1) * self._waves):
            yield self._read[wave]
            yield self._kernel.use(self.kernel_s(self._waves), "attention")
            self._used[wave].succeed()
        yield self._link.use(card.dma + up / card.link, "outputs")
        if policy.spill:
            scene.lane(self.drive.name, SPILL).give(self._spill_s(spill_tokens(model, policy)), "spill")

    def kernel_s(self, lists: int) -> float:
        """One of `lists` equal lists over K and V of this card's pairs. What is streamed crosses the card's memory
        twice, written by the drive and read by the kernel."""
        scene = self._scene
        card, work = scene.system.card, scene.work
        nbytes = self._nbytes / lists
        slowest = (nbytes + self._streamed / lists) / (card.memory_rate * MEMORY_SHARE)
        jobs = max(1.0, self.share.pairs / lists)
        fixed = scene.policy.kernel_rate or card.kernel_rate
        if fixed:
            own = card.job * jobs if scene.policy.kernel_rate is None else 0.0
            return card.launch + own + max(slowest, nbytes / fixed)
        tokens = self.share.tokens * min(1.0, self.share.pairs / lists)  # of a job, which may be over a part of a pair
        # Elements of a byte take the array as many steps as FP16: it takes 32 at a time, whatever a word holds.
        shape = JobShape(work.model.head_size, work.model.group * work.queries, math.ceil(tokens), work.queries)
        return card.launch + max(slowest, cycles(shape, jobs, fitted()) / card.clock)

    def reads(self, begin: Moments, x_used: Moments) -> Steps:
        """Waves in order, as long as a staging buffer is free, a part of X before each."""
        scene = self._scene
        drive, policy = scene.system.card.drive, scene.policy
        request = self._request_nbytes()
        # No less than smaller requests take: a noisy table may say that.
        sizes = (*(size for size, _ in drive.by_size.read if size < request), request)
        each_s = max(drive.request_s(size, IN_FLIGHT, peer=True) for size in sizes)
        wave_s = self._streamed / max(1, self._waves) / request * each_s
        x_s = x_piece_nbytes(scene) / scene.system.cards / min(drive.read, scene.system.card.link)
        each = X_PIECES if scene.alpha else self._waves
        for layer in count():
            if not (policy.read_ahead and each):
                yield begin[layer]
            if not policy.spill and self.share.pairs:
                yield self.drive.use(self._spill_s(1), "new rows")
                self._written[layer].succeed()
            for number in range(layer * each, (layer + 1) * each):
                if scene.alpha:
                    if number >= X_UNDER_WAY:
                        yield x_used[number - X_UNDER_WAY]
                    yield self.drive.use(x_s, "X")
                    self.read_x[number].succeed()
                if self._waves:
                    if number >= BUFFERS:
                        yield self._used[number - BUFFERS]
                    yield self.drive.use(wave_s, "read")
                    self._read[number].succeed()

    def _request_nbytes(self) -> float:
        """What touches on flash: extents of 128 tokens of the KV heads that a card has of a sequence."""
        model, work = self._scene.work.model, self._scene.work
        heads = max(1.0, min(float(model.kv_heads), self.share.pairs / work.batch))
        return min(heads * pair_nbytes(model, EXTENT, self._scene.policy.element), max(PAGE_BYTES, self._streamed))

    def _spill_s(self, spill: int) -> float:
        """Writes of one step and layer: a request of `spill` tokens per pair for K and for V whenever as many are new.
        What waits in memory loses the drafts that were wrong before it is written. Where pairs are split by tokens each
        card has its part of what is new. Less than a page is a page read, changed and written."""
        drive, policy, work = self._scene.system.card.drive, self._scene.policy, self._scene.work
        new = work.tokens_per_step if policy.spill else work.queries
        nbytes = spill * padded(work.model.head_size) * policy.element
        size = math.ceil(nbytes / PAGE_BYTES) * PAGE_BYTES
        seconds = drive.request_s(size, 1, peer=True, write=True)
        if nbytes < PAGE_BYTES:
            seconds += drive.request_s(PAGE_BYTES, 1, peer=True)
        return 2 * self.share.pairs * self.share.tokens / work.context * new / spill * seconds
