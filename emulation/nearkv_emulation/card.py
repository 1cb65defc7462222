# SPDX-License-Identifier: Apache-2.0
"""The `sw_emu` card: a transport whose kernel is a function on memory. As strict as a card, without its timing.

`sw_emu:NAME?dram=4G&base=0x4000000000&banks=1&kernel=hls`. Every open card is a card of its own, whatever its name. Its
drive, which `drive=` can make slower, is in `drive`.
"""

from __future__ import annotations

import importlib
import time
from typing import cast

from nearkv_driver.errors import BufferMisuse, DriverError, TransportUnavailable
from nearkv_driver.registry import CardUrl
from nearkv_driver.regmap import ADDR_CTL, ADDR_CTRL, ADDR_KV, ADDR_OUT
from nearkv_driver.transport import Bank, Buffer, CardInfo

from nearkv_emulation.control import ControlRegisters
from nearkv_emulation.ddr import ALIGN, DdrBank, DdrBuffer
from nearkv_emulation.drive import drive_of
from nearkv_emulation.kernel import Kernel, Masters, Region
from nearkv_emulation.worker import Worker

_OPTIONS = ("dram", "base", "banks", "kernel", "drive")
_KERNELS = {"hls": "nearkv_emulation.csim:CsimKernel", "model": "nearkv_emulation.model:ModelKernel"}
_BASE = "0x4000000000"  # where an XDMA platform puts DDR[0]
_BANK_STEP = 1 << 34
_BUFFER_NBYTES_MAX = 1 << 32
# The kernel is linked to the first bank only.
_MASTERS = {"kv": 0, "ctl": 0, "out": 0}


def open_card(url: CardUrl) -> EmulatedCard:
    """Raises ValueError for an option that is unknown or out of range."""
    return EmulatedCard(card_info(url), kernel_of(url))


def card_info(url: CardUrl) -> CardInfo:
    """What the card of this URL says of itself; checks every option."""
    url.only(_OPTIONS)
    drive_of(url)
    dram = url.nbytes("dram", "4G")
    base = _base(url)
    if dram % ALIGN or base % ALIGN or base < 0:
        raise ValueError(f"card URL {url.text!r}: dram and base must be multiples of {ALIGN}")
    count = int(url.choice("banks", ("1", "2"), "1"))
    step = -(-dram // _BANK_STEP) * _BANK_STEP
    if base + step * (count - 1) + dram > 1 << 64:
        raise ValueError(f"card URL {url.text!r}: banks of {dram} bytes from {base:#x} pass 2**64")
    bounce = url.option("p2p", "on") == "bounce"
    return CardInfo(
        url=url.text,
        kind="sw_emu",
        platform=f"emulated, kernel {url.choice('kernel', tuple(_KERNELS), 'hls')}",
        banks=tuple(Bank(f"DDR[{i}]", i, base + i * step, dram) for i in range(count)),
        masters=dict(_MASTERS),
        p2p=not bounce,
        p2p_reason="the card URL says p2p=bounce" if bounce else "",
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
        self._banks = [DdrBank(bank, info.url) for bank in info.banks]
        self._buffers: list[DdrBuffer] = []
        self._worker = Worker(f"card {info.url}")
        self._running = self._closed = False

    def read32(self, offset: int) -> int:
        self._open()
        return self._registers.read(offset)

    def write32(self, offset: int, value: int) -> None:
        self._open()
        self._registers.write(offset, value)
        if offset == ADDR_CTRL and self._registers.begin():
            self._begin()

    def alloc(self, nbytes: int, bank: int, p2p: bool = False) -> Buffer:
        self._open()
        if not 0 <= bank < len(self._banks):
            raise ValueError(f"bank {bank}; the card has banks 0 to {len(self._banks) - 1}")
        if not 0 < nbytes < _BUFFER_NBYTES_MAX:
            raise ValueError(f"a buffer of {nbytes} bytes; it has 1 to {_BUFFER_NBYTES_MAX - 1}")
        if p2p and not self._info.p2p:
            raise TransportUnavailable(f"no P2P buffers: {self._info.p2p_reason}", card=self._info.url)
        self._buffers = [b for b in self._buffers if not b.freed]
        buffer = DdrBuffer(self._banks[bank], nbytes, p2p)
        self._buffers.append(buffer)
        return buffer

    def pause(self, seconds: float) -> None:
        self._open()
        if not self._running:
            time.sleep(max(0.0, seconds))
            return
        try:
            ended = self._worker.wait(max(0.0, seconds))
        except Exception as error:
            self._running = False
            raise DriverError(f"the emulated kernel failed: {error}", card=self._info.url) from error
        self._registers.accepted()
        if ended:
            self._running = False
            self._registers.ended()

    def info(self) -> CardInfo:
        self._open()
        return self._info

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._worker.close()
        for buffer in self._buffers:
            buffer.detach()
        # A list that still runs holds the memory until it ends.
        self._buffers, self._banks = [], []

    def _begin(self) -> None:
        kv, ctl, out = (self._registers.argument(a) for a in (ADDR_KV, ADDR_CTL, ADDR_OUT))
        for name, address in (("ctl", ctl), ("out", out)):
            bank = self._banks[self._info.masters[name]]
            if not bank.holds(address):
                self._registers.refused()
                raise BufferMisuse(
                    f"START with {name.upper()} = {address:#x}, which lies in no buffer of {bank.bank.tag}, "
                    f"the bank of m_axi_{name}",
                    card=self._info.url,
                )
        masters = Masters(self._regions("kv"), self._regions("ctl"), self._regions("out"))
        self._running = True
        self._worker.give(lambda: self._kernel.run(masters, kv, ctl, out))

    def _regions(self, master: str) -> list[Region]:
        bank = self._banks[self._info.masters[master]]
        return [Region(bank.bank.base, bank.memory)]

    def _open(self) -> None:
        if self._closed:
            raise DriverError("the card is closed", card=self._info.url)


def _base(url: CardUrl) -> int:
    text = url.option("base", _BASE)
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"card URL {url.text!r}: base={text}; an address such as {_BASE} is expected") from None
