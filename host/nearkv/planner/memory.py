# SPDX-License-Identifier: Apache-2.0
"""What must lie where, what room there is, and what would help when it is not enough. No times."""

from __future__ import annotations

from dataclasses import dataclass

from nearkv.planner.hardware import Drive
from nearkv.planner.system import (
    CARD_DRIVES,
    GPU_ONLY,
    HOST_DRAM,
    HOST_DRAM_GPU,
    HOST_FILES,
    NEAR,
    PLAIN,
    UNITS,
    Policy,
    System,
    Work,
)
from nearkv.planner.traffic import kv_nbytes, offload_read, pair_nbytes, shares, spill_tokens, x_nbytes
from nearkv.planner.units import human_size
from nearkv.tail import slot_rows_of

# Assumptions: what a CUDA context and its libraries take, tokens of a prompt that are processed at a time, how full a
# file system may be, and the smallest staging buffers of a card.
GPU_RUNTIME = 1.0e9
PREFILL_CHUNK = 2048
DRIVE_FULL = 0.95
STAGING_LEAST = 64e6


@dataclass(frozen=True)
class Need:
    """`used` of `room` bytes in one place; `what` says of what."""

    place: str
    used: float
    room: float
    what: str

    @property
    def fits(self) -> bool:
        return self.used <= self.room


@dataclass(frozen=True)
class Places:
    """Where the weights lie (bytes), and all needs. `resident`: share of K and V that stays in card memory."""

    gpu: float
    dram: float
    drives: float
    needs: tuple[Need, ...]
    resident: float

    @property
    def fits(self) -> bool:
        return all(need.fits for need in self.needs)


def place(system: System, work: Work, policy: Policy, alpha: float) -> Places:
    """Weights go to the GPU as far as they fit, then to host memory, then to drives."""
    model, host, gpu = work.model, system.host, system.gpu
    weights = model.parameters * 2.0
    activations = activation_nbytes(work)
    has_drives = policy.place in (NEAR, PLAIN, HOST_FILES)
    tail = tail_nbytes(work, policy) if has_drives else 0.0
    kv = kv_nbytes(work, policy, alpha, work.context + work.output)
    in_gpu_kv = kv if policy.place == GPU_ONLY else 0.0
    in_dram_kv = kv if policy.place in (HOST_DRAM, HOST_DRAM_GPU) else 0.0
    layer = model.layer_parameters * 2.0
    passing = 0.0  # through GPU memory, double-buffered: K and V, or X, of a sequence
    if policy.place in (PLAIN, HOST_DRAM_GPU):
        passing = 2 * offload_read(model, work.context, policy.element)
    if alpha:
        passing += 2 * work.context * model.hidden * 2.0
    needs: list[Need] = []
    if gpu.in_host_memory:
        on_gpu, base_dram = 0.0, GPU_RUNTIME + activations + in_gpu_kv
    else:
        fixed = GPU_RUNTIME + activations + in_gpu_kv
        streams = 2 * layer
        spare = gpu.memory - fixed
        if spare >= weights:
            on_gpu = weights
        else:
            room = max(0.0, spare - streams)
            on_gpu = room - min(passing, room / 2)
        if policy.place == GPU_ONLY:
            on_gpu = weights
        used = fixed + on_gpu + (0.0 if on_gpu >= weights else streams)
        needs.append(Need("GPU memory", used, gpu.memory, "weights or their stream, activations, runtime"
                          + (", K and V" if in_gpu_kv else "")))  # fmt: skip
        base_dram = 0.0
    rest = weights - on_gpu
    dram_fixed = host.runtime + base_dram + in_dram_kv + tail
    if policy.weights_on_drives and has_drives:
        in_dram = 0.0
    else:
        in_dram = rest if not has_drives else max(0.0, min(rest, host.dram - dram_fixed - 2 * layer))
    on_drives = rest - in_dram
    streams = 2 * layer if on_drives else 0.0
    needs.append(Need("host memory", dram_fixed + in_dram + streams, host.dram,
                      "weights, write buffers, runtime" + (", K and V" if in_dram_kv else "")))  # fmt: skip
    resident = 0.0
    if policy.place == NEAR:
        resident = _card_needs(system, work, policy, alpha, on_drives, needs)
    elif has_drives:
        drive, count = plain_drives(system, policy)
        needs.append(Need("drives", kv + on_drives, count * drive.capacity * DRIVE_FULL, "K and V, weights"))
    return Places(on_gpu, in_dram, on_drives, tuple(needs), resident)


def plain_drives(system: System, policy: Policy) -> tuple[Drive, int]:
    """(drive, count) that a plain-drive policy uses."""
    return (system.card.drive, system.cards) if policy.drives == CARD_DRIVES else (system.drive, system.drives)


def activation_nbytes(work: Work) -> float:
    """Of one layer over a chunk of prompt tokens, of a whole prompt between two layers, and logits of a step."""
    model = work.model
    tokens = max(work.batch * work.queries, min(PREFILL_CHUNK, work.context))
    wide = 4 * model.hidden + 2 * model.intermediate + (model.heads + 2 * model.kv_heads) * model.head_size
    whole = 2 * work.context * model.hidden * 2.0
    return whole + tokens * wide * 2.0 + work.batch * work.queries * model.vocab * 4.0


def tail_nbytes(work: Work, policy: Policy) -> float:
    """K and V that wait in host memory until they fill a spill, and one spill under way."""
    copies = spill_tokens(work.model, policy) if policy.spill == UNITS else 0
    return work.batch * work.model.layers * offload_read(work.model, slot_tokens(work, policy) + copies, policy.element)


def slot_tokens(work: Work, policy: Policy) -> int:
    """Tokens of a pair that the write buffer has room for, in host memory and mirrored on a card: what this program
    takes where it spills one unit at a time; two spills and what is new where another does it."""
    spill = spill_tokens(work.model, policy)
    return slot_rows_of(spill, 1) if policy.spill == UNITS else 2 * spill + work.queries


def _card_needs(system: System, work: Work, policy: Policy, alpha: float, weights: float, needs: list[Need]) -> float:
    card, model = system.card, work.model
    dealt = shares(system, work, policy, alpha)
    per_layer = max((s.pairs * pair_nbytes(model, s.tokens, policy.element) for s in dealt), default=0.0)
    most = max(
        (s.pairs * pair_nbytes(model, s.tokens + work.output * s.tokens / work.context, policy.element) for s in dealt),
        default=0.0,
    )
    x = x_nbytes(work, alpha, work.context + work.output)
    kv = most * model.layers + (x + weights) / system.cards
    needs.append(Need("each drive", kv, card.drive.capacity * DRIVE_FULL, "K, V, X and weights"))
    d_tail = (
        max((s.pairs for s in dealt), default=0.0)
        * model.layers
        * pair_nbytes(model, slot_tokens(work, policy), policy.element)
    )
    room = card.memory - d_tail - STAGING_LEAST
    needs.append(Need("card memory", d_tail + STAGING_LEAST, card.memory, "tails and staging buffers"))
    if policy.hit is not None:
        return policy.hit
    if not policy.resident or per_layer == 0 or room <= 0:
        return 0.0
    whole = per_layer * model.layers
    if whole <= room:
        return 1.0
    staging = min(per_layer * 2, card.memory / 4)
    return max(0.0, min(1.0, (room - staging) / whole))


def advice(system: System, work: Work, policy: Policy, places: Places) -> list[str]:
    """What would make it fit, one sentence per place that is too small."""
    told = []
    for need in places.needs:
        if need.fits:
            continue
        over = human_size(need.used - need.room)
        sentence = f"{need.place} lacks {over} ({human_size(need.used)} needed, {human_size(need.room)} there)"
        told.append(f"{sentence}: {_remedy(system, work, policy, need)}")
    return told


def _remedy(system: System, work: Work, policy: Policy, need: Need) -> str:
    if need.place == "each drive":
        cards = -(-int(need.used * system.cards) // max(1, int(need.room)))
        return f"about {cards} cards, a shorter context or a smaller batch"
    if need.place == "drives":
        drive, _ = plain_drives(system, policy)
        return f"about {-(-int(need.used) // max(1, int(drive.capacity * DRIVE_FULL)))} such drives"
    if need.place == "host memory":
        kept = ", or K and V on drives" if policy.place in (HOST_DRAM, HOST_DRAM_GPU) else " or a smaller batch"
        return f"{human_size(need.used)} of host memory{kept}"
    if need.place == "card memory":
        return "more cards or a smaller batch"
    return f"a GPU of {human_size(need.used)}, a smaller batch, or --gpu cpu"
