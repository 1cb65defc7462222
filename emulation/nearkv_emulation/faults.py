# SPDX-License-Identifier: Apache-2.0
"""Faults of cards, as wrappers around a transport or a kernel; what is wrapped knows nothing of it.

Faults of storage are in `storage_faults`. With no fault given a wrapper changes nothing; the contract suite checks it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nearkv_driver.regmap import ADDR_CTRL, CTRL_DONE, REGISTER_GONE
from nearkv_driver.transport import Buffer, Bytes, CardInfo, Transport

from nearkv_emulation.kernel import Kernel, Masters, Region


@dataclass(frozen=True)
class CardFaults:
    """What goes wrong.

    never_done: DONE is never seen. gone_after_reads: after that many register reads every register reads all ones.
    reply_nbytes_kept: only that many bytes from the start of a buffer ever come back from the device.
    """

    never_done: bool = False
    gone_after_reads: int | None = None
    reply_nbytes_kept: int | None = None


class FaultyTransport:
    """A transport that fails as `faults` say, which may be replaced at any time. `reads` counts register reads."""

    def __init__(self, inner: Transport, faults: CardFaults | None = None) -> None:
        self._inner = inner
        self.reads = 0
        self.faults = faults if faults is not None else CardFaults()

    def read32(self, offset: int) -> int:
        value = self._inner.read32(offset)
        self.reads += 1
        limit = self.faults.gone_after_reads
        if limit is not None and self.reads > limit:
            return REGISTER_GONE
        return value & ~CTRL_DONE if self.faults.never_done and offset == ADDR_CTRL else value

    def write32(self, offset: int, value: int) -> None:
        self._inner.write32(offset, value)

    def alloc(self, nbytes: int, bank: int, p2p: bool = False) -> Buffer:
        return _FaultyBuffer(self._inner.alloc(nbytes, bank, p2p), self)

    def pause(self, seconds: float) -> None:
        began = time.monotonic()
        self._inner.pause(seconds)
        if self.faults.never_done:
            # The list below has ended, the one that is seen has not: the time passes.
            time.sleep(max(0.0, seconds - (time.monotonic() - began)))

    def info(self) -> CardInfo:
        return self._inner.info()

    def close(self) -> None:
        self._inner.close()


class _FaultyBuffer:
    def __init__(self, inner: Buffer, card: FaultyTransport) -> None:
        self._inner, self._card = inner, card

    @property
    def nbytes(self) -> int:
        return self._inner.nbytes

    @property
    def address(self) -> int:
        return self._inner.address

    @property
    def bank(self) -> int:
        return self._inner.bank

    @property
    def p2p(self) -> bool:
        return self._inner.p2p

    def write(self, data: Bytes, offset: int = 0) -> None:
        self._inner.write(data, offset)

    def read(self, nbytes: int, offset: int = 0) -> bytes:
        return self._inner.read(nbytes, offset)

    def sync_to_device(self, nbytes: int, offset: int = 0) -> None:
        self._inner.sync_to_device(nbytes, offset)

    def sync_from_device(self, nbytes: int, offset: int = 0) -> None:
        kept = self._card.faults.reply_nbytes_kept
        self._inner.sync_from_device(nbytes if kept is None else max(0, min(nbytes, kept - offset)), offset)

    def view(self, nbytes: int, offset: int = 0) -> memoryview:
        return self._inner.view(nbytes, offset)

    def free(self) -> None:
        self._inner.free()


class HoleInMemory:
    """A kernel for which `nbytes` bytes at device address `address` do not exist on one master (`kv`, `ctl`, `out`)."""

    def __init__(self, inner: Kernel, master: str, address: int, nbytes: int) -> None:
        if master not in ("kv", "ctl", "out"):
            raise ValueError(f"master {master!r}; it is kv, ctl or out")
        self._inner, self._master = inner, master
        self.address, self.nbytes = address, nbytes

    def run(self, masters: Masters, kv: int, ctl: int, out: int) -> None:
        regions: Sequence[Region] = getattr(masters, self._master)
        holed = [piece for region in regions for piece in self._without_hole(region)]
        self._inner.run(replace(masters, **{self._master: holed}), kv, ctl, out)

    def _without_hole(self, region: Region) -> list[Region]:
        start = min(max(self.address - region.base, 0), len(region.memory))
        stop = min(max(self.address + self.nbytes - region.base, start), len(region.memory))
        pieces = (Region(region.base, region.memory[:start]), Region(region.base + stop, region.memory[stop:]))
        return [piece for piece in pieces if len(piece.memory)]
