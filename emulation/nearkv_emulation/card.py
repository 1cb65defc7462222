# SPDX-License-Identifier: Apache-2.0
"""The `sw_emu` card: a transport whose kernel is a function on memory. As strict as a card, without its timing.

`sw_emu:NAME?dram=4G&base=0x4000000000&banks=1&kernel=hls`. Every open card is a card of its own, whatever its name. Its
drive, which `drive=` can make slower, is in `drive`.
"""

from __future__ import annotations

import importlib
import time
from typing import cast

from nearkv_driver.errors import BufferMisuse, DriverError
from nearkv_driver.registry import CardUrl
from nearkv_driver.regmap import ADDR_CTL, ADDR_CTRL, ADDR_KV, ADDR_OUT
from nearkv_driver.transport import Buffer, CardInfo
from nearkv_driver.work_threads import Call, WorkThreads

from nearkv_emulation import card_memory
from nearkv_emulation.card_memory import CardMemory, banks_of, p2p_of
from nearkv_emulation.control import ControlRegisters
from nearkv_emulation.drive import drive_of
from nearkv_emulation.kernel import Kernel

_OPTIONS = (*card_memory.OPTIONS, "kernel", "drive")
_KERNELS = {"hls": "nearkv_emulation.csim:CsimKernel", "model": "nearkv_emulation.model:ModelKernel"}


def open_card(url: CardUrl) -> EmulatedCard:
    """Raises ValueError for an option that is unknown or out of range."""
    return EmulatedCard(card_info(url), kernel_of(url))


def card_info(url: CardUrl) -> CardInfo:
    """What the card of this URL says of itself; checks every option."""
    url.only(_OPTIONS)
    drive_of(url)
    banks = banks_of(url)
    p2p, p2p_reason = p2p_of(url)
    return CardInfo(
        url=url.text,
        kind="sw_emu",
        platform=f"emulated, kernel {url.choice('kernel', tuple(_KERNELS), 'hls')}",
        banks=banks,
        masters=dict(card_memory.MASTERS),
        p2p=p2p,
        p2p_reason=p2p_reason,
        simulated=True,
    )


def kernel_of(url: CardUrl) -> Kernel:
    """The kernel that the URL names; builds it where it must be built."""
    module, _, name = _KERNELS[url.choice("kernel", tuple(_KERNELS), "hls")].partition(":")
    return cast(Kernel, getattr(importlib.import_module(module), name)())


class EmulatedCard:
    """A transport (nearkv_driver.transport.Transport). START hands a list to the card's own thread."""

    def __init__(self, info: CardInfo, kernel: Kernel) -> None:
        self._info = info
        self._kernel = kernel
        self._registers = ControlRegisters()
        self._memory = CardMemory(info)
        self._thread = WorkThreads(f"card {info.url}")
        self._running: Call[None] | None = None

    def read32(self, offset: int) -> int:
        self._memory.require_open()
        return self._registers.read(offset)

    def write32(self, offset: int, value: int) -> None:
        self._memory.require_open()
        self._registers.write(offset, value)
        if offset == ADDR_CTRL and self._registers.begin():
            self._begin()

    def alloc(self, nbytes: int, bank: int, p2p: bool = False) -> Buffer:
        return self._memory.alloc(nbytes, bank, p2p)

    def pause(self, seconds: float) -> None:
        self._memory.require_open()
        if self._running is None:
            time.sleep(max(0.0, seconds))
            return
        try:
            ended = self._running.ends_within(max(0.0, seconds))
        except Exception as error:
            self._running = None
            raise DriverError(f"the emulated kernel failed: {error}", card=self._info.url) from error
        self._registers.accepted()
        if ended:
            self._running = None
            self._registers.ended()

    def info(self) -> CardInfo:
        self._memory.require_open()
        return self._info

    def close(self) -> None:
        self._thread.close(wait=False)
        # A list that still runs holds the memory until it ends.
        self._memory.close()

    def _begin(self) -> None:
        kv, ctl, out = (self._registers.argument(a) for a in (ADDR_KV, ADDR_CTL, ADDR_OUT))
        try:
            self._memory.check_start(self._info.masters, ctl, out)
        except BufferMisuse:
            self._registers.refused()
            raise
        masters = self._memory.behind(self._info.masters)
        self._running = self._thread.give(lambda: self._kernel.run(masters, kv, ctl, out))
