# SPDX-License-Identifier: Apache-2.0
"""The systems that the HILOS paper measured, as readers' notes describe them, and ratios of their step times.

Default: batch 16, 8 cards, A100 40 GB, four PM9A3 for the baseline. Weights of models above 100 B parameters lie on
drives.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nearkv.planner.hardware import Card, Drive, Gpu, Host
from nearkv.planner.hardware_files import load
from nearkv.planner.memory import place
from nearkv.planner.models import find_model
from nearkv.planner.plan import ALPHAS
from nearkv.planner.step import simulate
from nearkv.planner.system import ANS, CARD_DRIVES, FLEX_DRAM, FLEX_SSD, HILOS, Policy, System, Work

MODELS = ("opt-30b", "opt-66b", "opt-175b")
CONTEXTS = (16384, 32768, 65536, 131072)
BATCH, CARDS = 16, 8
LARGE = 100e9


@dataclass
class Bench:
    """Step times of the published systems, each simulated once."""

    gpu: Gpu = field(default_factory=lambda: load("a100-40g", Gpu))
    host: Host = field(default_factory=lambda: load("xeon-h3", Host))
    card: Card = field(default_factory=lambda: load("smartssd", Card))
    drive: Drive = field(default_factory=lambda: load("pm9a3", Drive))
    _seen: dict[tuple[object, ...], float] = field(default_factory=dict)

    def system(self, cards: int) -> System:
        return System(self.gpu, self.host, self.card, cards, self.drive, 4)

    def work(self, model: str, context: int, batch: int = BATCH) -> Work:
        return Work(find_model(model), context, batch)

    def step(self, model: str, context: int, policy: Policy, *, cards: int = CARDS, alpha: float = 0.0) -> float:
        work = self.work(model, context)
        policy = policy.with_(weights_on_drives=work.model.parameters > LARGE)
        key = (model, context, policy, cards, alpha)
        if key not in self._seen:
            system = self.system(cards)
            places = place(system, work, policy, alpha)
            self._seen[key] = simulate(system, work, policy, alpha, places).seconds
        return self._seen[key]

    def hilos(self, model: str, context: int, cards: int = CARDS, alphas: tuple[float, ...] = ALPHAS) -> float:
        """With the share of X that suits it best."""
        return min(self.step(model, context, HILOS, cards=cards, alpha=alpha) for alpha in alphas)

    def flex_ssd(self, model: str, context: int) -> float:
        return self.step(model, context, FLEX_SSD)

    def flex_16(self, model: str, context: int) -> float:
        return self.step(model, context, replace(FLEX_SSD, drives=CARD_DRIVES), cards=16)

    def flex_dram(self, model: str, context: int) -> float:
        return self.step(model, context, FLEX_DRAM)

    def ans(self, model: str, context: int) -> float:
        return self.step(model, context, ANS)

    def dram_holds(self, model: str, context: int, batch: int = BATCH) -> bool:
        work = self.work(model, context, batch)
        policy = FLEX_DRAM.with_(weights_on_drives=work.model.parameters > LARGE)
        return place(self.system(0), work, policy, 0.0).fits
