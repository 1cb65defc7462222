# SPDX-License-Identifier: Apache-2.0
"""`--timing` of `nearkv generate`: what the lists of the run would have taken on a card that the planner describes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nearkv.errors import UserError
from nearkv.generate import GenerationResult
from nearkv.planner import device_time
from nearkv.planner.hardware import Card
from nearkv.planner.hardware_files import load
from nearkv.rates import LinkLimits
from nearkv.report import Row


@dataclass(frozen=True)
class Timing:
    """A card's description, found before any work."""

    card: Card

    @classmethod
    def of(cls, name: str, prefill_chunk: int | None, prompt_lookup: int | None) -> Timing:
        """UserError for an unknown card, and for runs whose lists carry more than one query token: how many rows the
        kernel walked is not counted."""
        for option, value in (("--prefill-chunk", prefill_chunk), ("--prompt-lookup", prompt_lookup)):
            if value is not None:
                raise UserError(f"--timing counts one query token per sequence and list; leave out {option}")
        return cls(load(name, Card))

    @property
    def limits(self) -> LinkLimits:
        """What the card's links carry."""
        return LinkLimits(self.card.name, self.card.drive.p2p_read, self.card.link)

    def rows(self, result: GenerationResult) -> list[Row]:
        return device_time.rows(self._time(result), self.card.name)

    def document(self, result: GenerationResult) -> dict[str, Any] | None:
        return device_time.document(self._time(result))

    def _time(self, result: GenerationResult) -> device_time.DeviceTime | None:
        if result.layout is None:
            return None
        steps = max(map(len, result.tokens), default=1) - 1
        return device_time.device_time(
            result.stats.cards, result.layout, self.card, steps=steps, wall_s=result.decode_s
        )
