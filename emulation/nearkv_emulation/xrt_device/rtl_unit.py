# SPDX-License-Identifier: Apache-2.0
"""A compute unit that is the Verilated kernel: registers and masters are the simulated ones, cycle by cycle.

Time passes only in `advance`, and while a register is read or written.
"""

from __future__ import annotations

from nearkv_emulation.kernel import Masters
from nearkv_emulation.rtl import RtlCard

_CYCLES_MAX = 1 << 40  # `advance` is limited by the clock on the wall
_WORD = 0xFFFFFFFF


class RtlUnit:
    """A KernelModel of our kernel."""

    def __init__(self, masters: Masters, card: RtlCard | None = None) -> None:
        self._card = card or RtlCard()
        self._card.map(masters)

    def read32(self, offset: int) -> int:
        return self._card.read32(offset)

    def write32(self, offset: int, value: int) -> None:
        self._card.write32(offset, value & _WORD)

    @property
    def busy(self) -> bool:
        return self._card.busy

    def advance(self, wall_s: float) -> None:
        self._card.pause(_CYCLES_MAX, max(1, round(wall_s * 1000)))

    def close(self) -> None:
        self._card.close()
