# SPDX-License-Identifier: Apache-2.0
"""The memory of one emulated card while it is open: banks from its URL, allocation, what a START may point at.

Knows no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nearkv_driver.errors import BufferMisuse, DriverError, TransportUnavailable
from nearkv_driver.registry import CardUrl
from nearkv_driver.transport import Bank, CardInfo

from nearkv_emulation.ddr import ALIGN, DdrBank, DdrBuffer
from nearkv_emulation.kernel import Masters, Region

OPTIONS = ("dram", "base", "banks")
# The kernel is linked to the first bank only.
MASTERS = {"kv": 0, "ctl": 0, "out": 0}
_BASE = "0x4000000000"  # where an XDMA platform puts DDR[0]
_BANK_STEP = 1 << 34
_BUFFER_NBYTES_MAX = 1 << 32


def banks_of(url: CardUrl) -> tuple[Bank, ...]:
    """The banks that `dram`, `base` and `banks` ask for; ValueError for values that make none."""
    dram = url.nbytes("dram", "4G")
    base = _base(url)
    if dram % ALIGN or base % ALIGN or base < 0:
        raise ValueError(f"card URL {url.text!r}: dram and base must be multiples of {ALIGN}")
    count = int(url.choice("banks", ("1", "2"), "1"))
    step = -(-dram // _BANK_STEP) * _BANK_STEP
    if base + step * (count - 1) + dram > 1 << 64:
        raise ValueError(f"card URL {url.text!r}: banks of {dram} bytes from {base:#x} pass 2**64")
    return tuple(Bank(f"DDR[{i}]", i, base + i * step, dram) for i in range(count))


def p2p_of(url: CardUrl) -> tuple[bool, str]:
    """Whether drives reach the card's memory, and why not."""
    bounce = url.option("p2p", "on") == "bounce"
    return not bounce, "the card URL says p2p=bounce" if bounce else ""


class CardMemory:
    """All banks of a card and the buffers in them, until `close`. `filled` is told address and size of what a drive is
    to write."""

    def __init__(self, info: CardInfo, filled: Callable[[int, int], None] | None = None) -> None:
        self._info = info
        self._filled = filled
        self._banks = [DdrBank(bank, info.url) for bank in info.banks]
        self._buffers: list[DdrBuffer] = []
        self._closed = False

    def require_open(self) -> None:
        """DriverError after `close`."""
        if self._closed:
            raise DriverError("the card is closed", card=self._info.url)

    def alloc(self, nbytes: int, bank: int, p2p: bool) -> DdrBuffer:
        """See nearkv_driver.transport.Transport.alloc."""
        self.require_open()
        if not 0 <= bank < len(self._banks):
            raise ValueError(f"bank {bank}; the card has banks 0 to {len(self._banks) - 1}")
        if not 0 < nbytes < _BUFFER_NBYTES_MAX:
            raise ValueError(f"a buffer of {nbytes} bytes; it has 1 to {_BUFFER_NBYTES_MAX - 1}")
        if p2p and not self._info.p2p:
            raise TransportUnavailable(f"no P2P buffers: {self._info.p2p_reason}", card=self._info.url)
        self._buffers = [b for b in self._buffers if not b.freed]
        buffer = DdrBuffer(self._banks[bank], nbytes, p2p, self._filled)
        self._buffers.append(buffer)
        return buffer

    def check_start(self, masters: Mapping[str, int], ctl: int, out: int) -> None:
        """BufferMisuse unless both pointers lie in buffers of the banks of their masters."""
        for name, address in (("ctl", ctl), ("out", out)):
            bank = self._banks[masters[name]]
            if not bank.holds(address):
                raise BufferMisuse(
                    f"START with {name.upper()} = {address:#x}, which lies in no buffer of {bank.bank.tag}, "
                    f"the bank of m_axi_{name}",
                    card=self._info.url,
                )

    def behind(self, masters: Mapping[str, int]) -> Masters:
        """What each master reaches: the whole bank that it is linked to."""
        return Masters(*(self._regions(masters[name]) for name in ("kv", "ctl", "out")))

    def close(self) -> None:
        """Makes every buffer unusable. Whoever still holds a region keeps its memory."""
        self._closed = True
        for buffer in self._buffers:
            buffer.detach()
        self._buffers, self._banks = [], []

    def _regions(self, index: int) -> Sequence[Region]:
        bank = self._banks[index]
        return [Region(bank.bank.base, bank.memory)]


def _base(url: CardUrl) -> int:
    text = url.option("base", _BASE)
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"card URL {url.text!r}: base={text}; an address such as {_BASE} is expected") from None
