# SPDX-License-Identifier: Apache-2.0
"""What the lists of a run would have taken on real cards: a run's counters through the planner's figures of a card.

The formulas are those of `near` and `kernel`; here the numbers of lists, jobs and words are counted, not planned. It
says nothing of the model's own arithmetic: that is the wall time beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nearkv_driver.registry import parse_url
from nearkv_driver.regmap import WORD_BYTES

from nearkv.layout import ModelLayout
from nearkv.planner.hardware import Card
from nearkv.planner.kernel import DDR4, IDEAL, Coefficients, JobShape, cycles, fitted
from nearkv.planner.near import DOWN_TRANSFERS
from nearkv.report import Row
from nearkv.stats import CardStats


@dataclass(frozen=True)
class CardTime:
    """Seconds of one card: kernel, starts and transfers over the link, reads from the drive, and all of it with reads
    behind the kernel."""

    kernel_s: float
    link_s: float
    read_s: float

    @property
    def seconds(self) -> float:
        return self.link_s + max(self.kernel_s, self.read_s)


@dataclass(frozen=True)
class DeviceTime:
    """Simulated time of the slowest card beside the wall time of the same decode steps. Cycles of all cards, where
    their kernels count them (hw_emu): what they counted, and what the formula says of the same lists."""

    card: str
    layers: int
    steps: int
    slowest: CardTime
    wall_s: float
    counted_cycles: int = 0
    formula_cycles: float = 0.0

    def per_layer(self, seconds: float) -> float:
        return seconds / (self.layers * self.steps)


def kernel_cycles(stats: CardStats, layout: ModelLayout, c: Coefficients | None = None) -> float:
    """Cycles of all lists of a card, one query token each; behind DDR4 without `c`."""
    if not stats.jobs:
        return 0.0
    c = c or fitted()
    row_words = 2 * layout.row_nbytes / WORD_BYTES
    shape = JobShape(layout.head_size, layout.group, max(0, round(stats.kernel_beats / stats.jobs / row_words)))
    one = JobShape(layout.head_size, layout.group, 0)
    each = cycles(shape, stats.jobs, c) - cycles(one, 0, c)
    return each + stats.lists * cycles(one, 0, c)


def memory_of(card: CardStats) -> str:
    """Behind which of the measured memories a card's kernel counts cycles: its URL says it of simulated RTL, whose
    default is the ideal one; XRT's emulation has no other (docs/xrt-emulation.md), cards have DDR4."""
    url = parse_url(card.url)
    if url.scheme == "hw_emu":
        return DDR4 if url.option("memory", IDEAL).partition(",")[0] == DDR4 else IDEAL
    return IDEAL if card.simulated else DDR4


def kernel_s(stats: CardStats, layout: ModelLayout, card: Card) -> float:
    """Seconds of all lists of a card; those of another kernel where the description has its rate."""
    if card.kernel_rate:
        return stats.kernel_beats * WORD_BYTES / card.kernel_rate + stats.jobs * card.job
    return kernel_cycles(stats, layout) / card.clock


def card_time(stats: CardStats, layout: ModelLayout, card: Card) -> CardTime:
    """Seconds of one card for what its counters tell."""
    moved = stats.link_down_payload + stats.link_up_payload + stats.link_overhead
    return CardTime(
        kernel_s=kernel_s(stats, layout, card),
        link_s=stats.lists * (card.launch + (DOWN_TRANSFERS + 1) * card.dma) + moved / card.link,
        read_s=stats.streamed_nbytes / card.drive.p2p_read,
    )


def device_time(
    stats: Sequence[CardStats], layout: ModelLayout, card: Card, *, steps: int, wall_s: float
) -> DeviceTime | None:
    """None where no step was decoded."""
    if steps < 1 or not stats:
        return None
    slowest = max((card_time(one, layout, card) for one in stats), key=lambda time: time.seconds)
    counting = [one for one in stats if one.kernel_cycles]
    formula = sum(kernel_cycles(one, layout, fitted(memory_of(one))) for one in counting)
    counted = sum(one.kernel_cycles for one in counting)
    return DeviceTime(card.name, layout.layers, steps, slowest, wall_s, counted, formula)


def rows(time: DeviceTime | None, name: str) -> list[Row]:
    """Lines for the table of a run."""
    if time is None:
        return [Row(f"on {name}, simulated", "no step was decoded")]
    slowest, per = time.slowest, time.per_layer
    parts = f"kernel {_ms(per(slowest.kernel_s))}, link {_ms(per(slowest.link_s))}, drive {_ms(per(slowest.read_s))}"
    table = [
        Row(f"on {name}, simulated", f"{_ms(per(slowest.seconds))} per layer and step ({parts})"),
        Row("wall time here", f"{_ms(per(time.wall_s))} per layer and step, the model's arithmetic included"),
    ]
    if time.counted_cycles:
        off = time.formula_cycles / time.counted_cycles - 1
        told = f"{time.counted_cycles:,} counted, {time.formula_cycles:,.0f} by the formula ({off:+.1%})"
        table.append(Row("kernel cycles", told))
    return table


def document(time: DeviceTime | None) -> dict[str, Any] | None:
    """For `--json`, seconds and cycles; None where nothing was decoded."""
    if time is None:
        return None
    slowest, per = time.slowest, time.per_layer
    return {
        "card": time.card,
        "layers": time.layers,
        "steps": time.steps,
        "simulated_s": slowest.seconds,
        "simulated_per_layer_s": per(slowest.seconds),
        "kernel_per_layer_s": per(slowest.kernel_s),
        "link_per_layer_s": per(slowest.link_s),
        "drive_per_layer_s": per(slowest.read_s),
        "wall_per_layer_s": per(time.wall_s),
        "counted_cycles": time.counted_cycles,
        "formula_cycles": time.formula_cycles,
    }


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"
