# SPDX-License-Identifier: Apache-2.0
"""What the hw_emu card makes of a simulated kernel that breaks; the kernel is a stand-in, so no Verilator is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from nearkv_driver.errors import DriverError
from nearkv_driver.registry import parse_url
from nearkv_driver.regmap import ADDR_CTRL, ADDR_KV, CTRL_CONTINUE
from nearkv_emulation.hw_emu import HwEmuCard
from nearkv_emulation.hw_emu_options import options_of
from nearkv_emulation.rtl import RtlCard, RtlFault

URL = "hw_emu:0?dram=1M&clock=100M"


class Kernel:
    """Runs a list of `length` cycles, `chunk` in a pause at most; `fault` is what every call raises."""

    def __init__(self, length: int = 0, chunk: int = 10**9) -> None:
        self.cycles, self.left, self.chunk = 0, length, chunk
        self.fault = ""
        self.closed = False
        self.masters: list[int] = []

    @property
    def busy(self) -> bool:
        return self.left > 0

    def memory(self, memory: object) -> None: ...

    def map(self, masters: object) -> None: ...

    def timing(self, master: int, timing: object) -> None:
        self.masters.append(master)

    def pause(self, cycles: int, wall_ms: int) -> None:
        self._check()
        passed = min(cycles, self.left, self.chunk) if self.busy else cycles
        self.cycles += passed
        self.left = max(0, self.left - passed)

    def read32(self, offset: int) -> int:
        self._check()
        return 0

    def write32(self, offset: int, value: int) -> None:
        self._check()

    def close(self) -> None:
        self.closed = True

    def _check(self) -> None:
        if self.fault:
            raise RtlFault(self.fault)


def card_with(kernel: Kernel) -> HwEmuCard:
    return HwEmuCard(options_of(parse_url(URL)), cast(RtlCard, kernel))


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.read32(ADDR_CTRL),
        lambda c: c.write32(ADDR_KV, 1),
        lambda c: c.write32(ADDR_CTRL, CTRL_CONTINUE),
        lambda c: c.pause(1.0),
    ],
)
def test_a_kernel_that_breaks_a_rule_is_card_trouble(call: Callable[[HwEmuCard], Any]) -> None:
    kernel = Kernel(length=5)
    card = card_with(kernel)
    kernel.fault = "m_axi_kv: a read burst crosses 4 KiB"
    with pytest.raises(DriverError, match=r"hw_emu:0\S*: the simulated kernel failed: m_axi_kv: a read burst crosses"):
        call(card)
    card.close()
    card.close()
    assert kernel.closed


def test_a_pause_ends_with_the_list_or_with_its_seconds() -> None:
    kernel = Kernel(length=1000, chunk=64)
    card = card_with(kernel)
    card.pause(5e-6)
    assert (kernel.cycles, kernel.left) == (500, 500)
    card.pause(1.0)
    assert (kernel.cycles, kernel.left) == (1000, 0)
    card.pause(1.0)
    assert kernel.cycles == 1000 + 100_000_000
    card.close()


def test_every_master_has_the_timing() -> None:
    kernel = Kernel()
    card_with(kernel).close()
    assert kernel.masters == [0, 1, 2]


def test_a_card_that_cannot_be_made_closes_its_kernel() -> None:
    class Refuses(Kernel):
        def map(self, masters: object) -> None:
            raise ValueError("on purpose")

    kernel = Refuses()
    with pytest.raises(ValueError, match="on purpose"):
        card_with(kernel)
    assert kernel.closed
