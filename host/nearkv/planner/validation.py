# SPDX-License-Identifier: Apache-2.0
"""The model against what others published: thirteen targets and two related systems, one calibration for all.

A target has a published value or range, how good its source is, and ours. For a range the error is the larger of the
difference of the midpoints and how far ours reaches outside it. Nothing here changes a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nearkv.planner.bench_of_hilos import BATCH, CONTEXTS, MODELS, Bench
from nearkv.planner.hardware import Drive
from nearkv.planner.hardware_files import load
from nearkv.planner.kernel import JobShape, fitted, nbytes_per_cycle
from nearkv.planner.memory import place
from nearkv.planner.models import find_model
from nearkv.planner.plan import ALPHAS
from nearkv.planner.relatives import KEPT, Training, instattention_ratio
from nearkv.planner.system import FLEX_DRAM, HILOS
from nearkv.planner.traffic import traffic_ratio, written_per_token

GOAL = 0.15
PRIMARY, NOTES, DERIVED, MEMORY = "primary", "notes", "derived", "from memory"
# Seconds per 10^9 parameters of forward and backward in Smart-Infinity's runs.
TRAINING_COMPUTE = 1.0


@dataclass(frozen=True)
class Figure:
    """One compared figure; a single value has equal ends. `bound`: what was published is an upper bound, and everything
    below agrees with it."""

    what: str
    published: tuple[float, float]
    ours: tuple[float, float]
    bound: bool = False

    @property
    def error(self) -> float:
        """Signed; see the module's first lines."""
        (low, high), (our_low, our_high) = self.published, self.ours
        if self.bound:
            return max(0.0, our_high / high - 1)
        middle = (our_low + our_high) / (low + high) - 1
        below, above = min(0.0, our_low / low - 1), max(0.0, our_high / high - 1)
        return max(middle, below, above, key=abs)


@dataclass(frozen=True)
class Target:
    """`number`: as in the list of targets, 0 for related systems."""

    number: int
    title: str
    grade: str
    figures: tuple[Figure, ...]
    note: str = ""

    @property
    def error(self) -> float:
        return max((figure.error for figure in self.figures), key=abs)

    @property
    def met(self) -> bool:
        return abs(self.error) <= GOAL


@dataclass(frozen=True)
class Constant:
    """A constant that no source gives for certain."""

    name: str
    value: str
    source: str


def constants(bench: Bench | None = None) -> tuple[Constant, ...]:
    """Everything that was free in the one calibration."""
    b = bench or Bench()
    fit = "fitted to all targets together"
    return (
        Constant(
            "host.attention",
            f"{b.host.attention / 1e9:g} GB/s",
            f"{fit}; FlexGen converts K and V to FP32 and attends on the CPU",
        ),
        Constant(
            "host.file_rate",
            f"{b.host.file_rate / 1e9:g} GB/s",
            f"{fit}; FlexGen reads through memory maps with four threads",
        ),
        Constant(
            "host.page_copy",
            f"{b.host.page_copy * 1e6:g} us",
            f"{fit}; explicit XRT transfers per head and sequence, made by one thread",
        ),
        Constant("gpu.efficiency", f"{b.gpu.efficiency:g}", f"{fit}; usual for large FP16 products"),
        Constant(
            "training compute",
            f"{TRAINING_COMPUTE:g} s",
            "chosen by hand for all of Smart-Infinity's ratios; from 0.9 to 1.2 s they move by 4 % at most",
        ),
    )


def one(what: str, published: float, ours: float) -> Figure:
    """A published number and ours."""
    return Figure(what, (published, published), (ours, ours))


def at_most(what: str, published: float, ours: float) -> Figure:
    """A published limit and our number."""
    return Figure(what, (published, published), (ours, ours), bound=True)


def span(values: Sequence[float]) -> tuple[float, float]:
    """Least and greatest."""
    return min(values), max(values)


def targets(bench: Bench | None = None) -> tuple[Target, ...]:
    """All of them, computed."""
    b = bench or Bench()
    return tuple(make(b) for make in _TARGETS)


def _traffic(b: Bench) -> Target:
    s = 32768
    found = one("s = 32768", (s + 1) / 2, traffic_ratio(find_model("opt-66b"), s))
    return Target(1, "link traffic, host offload over near storage: (s+1)/2", NOTES, (found,))


def _alpha(b: Bench) -> Target:
    times = {alpha: b.hilos("opt-66b", 32768, alphas=(alpha,)) for alpha in ALPHAS}
    best = min(times, key=lambda alpha: times[alpha])
    found = one("OPT-66B, 32K, 8 cards (drives : uplink = 3)", 0.5, best)
    return Target(2, "share of X that is best", NOTES, (found,))


def _spill(b: Bench) -> Target:
    """Without X-cache, which would hide what is measured; the shortest of the contexts, where it shows most."""
    times = {c: b.step("opt-66b", 16384, HILOS.with_(spill=c)) for c in (1, 2, 4, 8, 16, 32, 64)}
    best = min(times, key=lambda c: times[c])
    slower = times[16] / times[64]
    figures = (one("best interval, tokens", 16, best), at_most("throughput at 64 over 16", 0.70, slower))
    return Target(3, "spill interval", NOTES, figures)


def _raid(b: Bench) -> Target:
    rates = {n: min(n * b.card.drive.read, b.host.uplink) for n in range(1, 17)}
    flat = next(n for n in rates if rates[n] >= 0.99 * rates[16])
    training = Training(b.card, b.host, TRAINING_COMPUTE)
    gain = training.plain(1) / training.plain(4)
    figures = (
        Figure("drives until RAID-0 stops to gain", (3, 4), (flat, flat)),
        Figure("training, 4 drives over 1", (2.25, 2.5), (gain, gain)),
    )
    return Target(4, "plain RAID-0 flat beyond 3 or 4 drives", PRIMARY, figures)


def _cases() -> list[tuple[str, int]]:
    return [(model, context) for model in MODELS for context in CONTEXTS]


def _sixteen(b: Bench) -> Target:
    ratios = [b.flex_ssd(m, c) / b.flex_16(m, c) for m, c in _cases()]
    return Target(
        5,
        "FlexGen on 16 PCIe 3 drives over FlexGen on 4 PM9A3",
        NOTES,
        (Figure("throughput", (0.64, 0.94), span(ratios)),),
    )


def _one_drive(b: Bench) -> Target:
    ratio = b.card.drive.p2p_read / b.card.drive.read
    training = Training(b.card, b.host, TRAINING_COMPUTE)
    gain = training.plain(1) / training.near(1)
    figures = (at_most("inner over outer bandwidth", 1.0, ratio), Figure("training", (0.75, 0.9), (gain, gain)))
    note = (
        "The training figure misses. The model's plain drive writes at 3.2 GB/s, which a launch article says and no "
        "measurement; at 2.5 GB/s the ratio would be 0.74."
    )
    return Target(6, "one near-storage drive gains nothing", PRIMARY, figures, note)


def _dram_cases(b: Bench) -> list[tuple[str, int]]:
    return [(m, c) for m in MODELS for c in (8192, *CONTEXTS) if b.dram_holds(m, c)]


def _dram(b: Bench) -> Target:
    cases = _dram_cases(b)
    four, sixteen = ([b.flex_dram(m, c) / b.hilos(m, c, cards) for m, c in cases] for cards in (4, 16))
    told = ", ".join(f"{m} {c // 1024}K" for m, c in cases)
    figures = (Figure("4 cards", (1.10, 1.36), span(four)), Figure("16 cards", (1.88, 2.49), span(sixteen)))
    note = (
        f"Which cases the ratios are of is not known; here batch {BATCH} where DRAM holds it: {told}. From 4 to 16 "
        "cards HILOS gains 1.7 to 1.8 times and the model's HILOS more: some time of its step that does not shrink "
        "with the number of cards is not in the model."
    )
    return Target(7, "HILOS over FlexGen with K and V in DRAM", NOTES, figures, note)


def _ssd(b: Bench) -> Target:
    ratios = {(m, c): b.flex_ssd(m, c) / b.hilos(m, c, 16) for m, c in _cases()}
    full = [ratio for (m, c), ratio in ratios.items() if not b.dram_holds(m, c, 1)]
    figures = (
        one("best", 7.86, max(ratios.values())),
        Figure("where DRAM holds not even batch 1", (5.3, 7.8), span(full)),
    )
    return Target(8, "HILOS on 16 cards over FlexGen on SSDs", f"{PRIMARY} (best), {NOTES}", figures)


def _ablation(b: Bench) -> Target:
    ans = max(b.flex_ssd(m, c) / b.ans(m, c) for m, c in _cases())
    late = max(b.ans(m, c) / b.step(m, c, HILOS) for m, c in _cases())
    both = max(b.ans(m, c) / b.hilos(m, c) for m, c in _cases())
    figures = (
        one("near storage alone", 3.39, ans),
        one("+ delayed writeback", 1.32, late),
        one("+ X-cache, over near storage alone", 1.64, both),
    )
    return Target(
        9,
        "ablation, best of each",
        NOTES,
        figures,
        "8 cards. X-cache alone cannot give 1.64 where half the heads keep X, so the last is with delayed writeback. "
        "It misses: in the model X shares drives and links with K and V without loss; what HILOS loses is not told.",
    )


def _groups(b: Bench) -> Target:
    """The RTL's kernel, not HILOS': what is compared is that its rate of K and V does not depend on the group."""
    rate = {rows: nbytes_per_cycle(JobShape(128, rows, 32768), fitted()) * rows for rows in (1, 4, 5)}
    figures = tuple(
        one(f"GFLOPS at {rows} rows over 1", value / 11.9, rate[rows] / rate[1])
        for rows, value in ((4, 46.8), (5, 56.3))
    )
    return Target(10, "GFLOPS grow with the group, K and V at one rate", NOTES, figures)


def _filling(b: Bench) -> Target:
    work = b.work("opt-175b", 131072)
    alpha = min(ALPHAS, key=lambda a: b.hilos("opt-175b", 131072, 16, (a,)))
    places = place(b.system(16), work, HILOS, alpha)
    used = next(need.used for need in places.needs if need.place == "each drive") / 1e9
    return Target(11, "bytes per drive, GB", NOTES, (at_most("OPT-175B, 128K, 16 cards", 600.0, used),))


def _wear(b: Bench) -> Target:
    model = find_model("opt-175b")
    flex, near = FLEX_DRAM.with_(place="host-ssd"), HILOS
    gains = []
    for prompt, output in ((256, 100), (1024, 350), (8192, 350)):
        plain = (prompt + output) * written_per_token(model, flex, 0.0)
        gains.append(plain / ((prompt + output) * written_per_token(model, near, 0.5)))
    requests = 16 * b.card.drive.endurance / ((8192 + 350) * written_per_token(model, near, 0.5)) / 1e6
    figures = (
        Figure("requests over FlexGen", (1.34, 1.47), span(gains)),
        one("million long requests, 16 drives", 4.08, requests),
    )
    return Target(12, "endurance", NOTES, figures)


def _batch(b: Bench) -> Target:
    most = max(n for n in range(1, 17) if b.dram_holds("opt-66b", 65536, n))
    return Target(13, "largest batch with K and V in DRAM, OPT-66B", NOTES, (one("64K, 512 GB", 2, most),))


def _smart_infinity(b: Bench) -> Target:
    t = Training(b.card, b.host, TRAINING_COMPUTE)
    ten = t.plain(10) / t.near(10)
    figures = (
        Figure("6 drives", (1.18, 1.24), (t.plain(6) / t.near(6),) * 2),
        Figure("10 drives", (1.54, 1.60), (ten, ten)),
        Figure("10 drives, compressed", (1.85, 1.98), (t.plain(10) / t.near(10, KEPT),) * 2),
    )
    return Target(0, "Smart-Infinity over RAID-0", PRIMARY, figures)


def _instattention(b: Bench) -> Target:
    ratio = instattention_ratio(load("pm9a3", Drive), 4, b.host)
    return Target(
        0,
        "InstAttention over FlexGen, at best",
        f"{PRIMARY} (ratio), {MEMORY} (its drive)",
        (one("OPT-13B, sparse", 11.1, ratio),),
        "Coarse on purpose: the rate of its flash, its sparse reads and its baseline are from memory (relatives.py).",
    )


_TARGETS: tuple[Callable[[Bench], Target], ...] = (
    _traffic, _alpha, _spill, _raid, _sixteen, _one_drive, _dram, _ssd, _ablation, _groups, _filling, _wear, _batch,
    _smart_infinity, _instattention,
)  # fmt: skip
