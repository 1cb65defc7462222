# SPDX-License-Identifier: Apache-2.0
"""`RtlKernel`: the Verilated kernel as an implementation of `nearkv_emulation.kernel.Kernel`, cycle by cycle.

Registers are written and read over AXI4-Lite as a host would; the clock loop is in C++ (`harness/`).
"""

from __future__ import annotations

import ctypes
import errno
import os
from dataclasses import fields
from pathlib import Path
from types import TracebackType

import numpy as np
from nearkv_driver.regmap import (
    ADDR_CTL,
    ADDR_CTRL,
    ADDR_GIER,
    ADDR_IP_IER,
    ADDR_IP_ISR,
    ADDR_KV,
    ADDR_OUT,
    CTRL_CONTINUE,
    CTRL_DONE,
    CTRL_START,
    IP_IER_DONE,
)

from nearkv_emulation.kernel import Masters
from nearkv_emulation.memory_model import BusUses, Memory, MemoryTiming, config
from nearkv_emulation.rtl_build import library

__all__ = ["MemoryTiming", "RtlCard", "RtlFault", "RtlKernel"]

_U32, _U64, _INT, _PTR = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p
_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "new": (_PTR, [_U64]),
    "free": (None, [_PTR]),
    "region": (None, [_PTR, _INT, _U64, _PTR, _U64]),
    "clear_regions": (None, [_PTR]),
    "timing": (None, [_PTR, _INT, _U32, _U32, _U32]),
    "configure": (None, [_PTR, _PTR]),
    "hang_after": (None, [_PTR, _U64]),
    "fill": (None, [_PTR, _U64, _U64]),
    "drain": (None, [_PTR]),
    "reset": (None, [_PTR, _U32]),
    "write": (_INT, [_PTR, _U32, _U32]),
    "read": (_INT, [_PTR, _U32, _PTR]),
    "run": (_U64, [_PTR, _U64]),
    "pause": (None, [_PTR, _U64, _U32]),
    "tick": (None, [_PTR, _U64]),
    "busy": (_INT, [_PTR]),
    "interrupt": (_INT, [_PTR]),
    "cycles": (_U64, [_PTR]),
    "words": (_U64, [_PTR, _INT]),
    "bus_uses": (_INT, [_PTR, _PTR]),
    "broken": (ctypes.c_char_p, [_PTR]),
    "wave": (_INT, [_PTR, ctypes.c_char_p]),
}


class RtlFault(RuntimeError):
    """The simulated kernel did what no kernel may: hung, or broke a rule of AXI."""


class RtlCard:
    """One Verilated kernel with its registers and memory. A context manager.

    wave: an FST file of every signal; OSError when it cannot be written.
    """

    def __init__(self, seed: int = 1, cache: Path | None = None, wave: Path | None = None) -> None:
        if wave is not None:
            # The writer of the simulator does not tell.
            with wave.open("wb"):
                pass
        self._library = ctypes.CDLL(str(library(cache, wave is not None)))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._library, f"nearkv_card_{name}")
            function.restype, function.argtypes = result, arguments
        self._card = self._library.nearkv_card_new(seed)
        self._masters: Masters | None = None
        if wave is not None and not self._library.nearkv_card_wave(self._card, str(wave).encode()):
            self.close()
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(wave))

    def __enter__(self) -> RtlCard:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._card:
            self._library.nearkv_card_free(self._card)
            self._card = self._masters = None

    @property
    def masters(self) -> Masters | None:
        """The memory that `map` was given last."""
        return self._masters

    @property
    def cycles(self) -> int:
        return int(self._library.nearkv_card_cycles(self._card))

    def words(self, master: int) -> int:
        """Words that a master (by index; 3: the switch) has moved so far."""
        return int(self._library.nearkv_card_words(self._card, master))

    def bus_uses(self) -> BusUses:
        """What the memory's bus did in each cycle since `memory`. ValueError for an ideal memory, which has none."""
        counts = (_U64 * len(fields(BusUses)))()
        if not self._library.nearkv_card_bus_uses(self._card, counts):
            raise ValueError("memory:ideal; its ports share no bus")
        return BusUses(*counts)

    @property
    def busy(self) -> bool:
        """Whether a list runs or is about to."""
        return bool(self._library.nearkv_card_busy(self._card))

    def memory(self, memory: Memory) -> None:
        """Replaces the channel behind the masters; nothing may be on its way."""
        self._library.nearkv_card_configure(self._card, ctypes.byref(config(memory)))

    def fill(self, address: int, nbytes: int) -> None:
        """Bytes that a drive sends into card memory, from any thread, also while the clock runs: time, not data."""
        self._library.nearkv_card_fill(self._card, address, nbytes)

    def drain(self) -> None:
        """Lets time pass until all fills have arrived; the kernel waits."""
        self._library.nearkv_card_drain(self._card)

    def hang_after(self, words: int) -> None:
        """Memory takes so many words of m_axi_out, counted from the first cycle on, and no more."""
        self._library.nearkv_card_hang_after(self._card, words)

    def timing(self, master: int, timing: MemoryTiming) -> None:
        self._library.nearkv_card_timing(self._card, master, timing.latency, timing.stall, timing.reorder)

    def map(self, masters: Masters) -> None:
        """Puts memory behind the masters; it stays until the next call."""
        self._library.nearkv_card_clear_regions(self._card)
        for index, regions in enumerate((masters.kv, masters.ctl, masters.out)):
            for region in regions:
                memory = region.memory
                if not memory.flags.c_contiguous or memory.dtype != np.uint8:
                    raise ValueError("a region must be contiguous bytes")
                self._library.nearkv_card_region(self._card, index, region.base, memory.ctypes.data, memory.nbytes)
        self._masters = masters

    def reset(self, cycles: int = 20) -> None:
        self._library.nearkv_card_reset(self._card, cycles)

    def write32(self, offset: int, value: int) -> None:
        if not self._library.nearkv_card_write(self._card, offset, value):
            raise RtlFault(f"no answer to a write of register {offset:#x}")

    def read32(self, offset: int) -> int:
        value = _U32(0)
        if not self._library.nearkv_card_read(self._card, offset, ctypes.byref(value)):
            raise RtlFault(f"no answer to a read of register {offset:#x}")
        return value.value

    def tick(self, cycles: int) -> None:
        self._library.nearkv_card_tick(self._card, cycles)
        self.check()

    def pause(self, cycles: int, wall_ms: int) -> None:
        """Lets `cycles` pass, less if a list ends or after `wall_ms` milliseconds of the machine's clock."""
        self._library.nearkv_card_pause(self._card, cycles, wall_ms)
        self.check()

    def run(self, limit: int) -> int:
        """Advances until the interrupt rises, `limit` cycles at most; returns the cycles that passed."""
        passed = int(self._library.nearkv_card_run(self._card, limit))
        self.check()
        return passed

    def check(self) -> None:
        """Raises RtlFault when a master has broken a rule of AXI."""
        broken = self._library.nearkv_card_broken(self._card)
        if broken:
            raise RtlFault(broken.decode())

    def start(self, kv: int, ctl: int, out: int) -> None:
        """Writes the pointers and START; the interrupt is enabled for DONE."""
        for offset, value in ((ADDR_KV, kv), (ADDR_CTL, ctl), (ADDR_OUT, out)):
            self.write32(offset, value & 0xFFFFFFFF)
            self.write32(offset + 4, value >> 32)
        self.write32(ADDR_GIER, 1)
        self.write32(ADDR_IP_IER, IP_IER_DONE)
        self.write32(ADDR_CTRL, CTRL_START)

    def finish(self) -> None:
        """After the interrupt: checks DONE, acknowledges."""
        if not self.read32(ADDR_CTRL) & CTRL_DONE:
            raise RtlFault("interrupt without DONE")
        self.write32(ADDR_IP_ISR, self.read32(ADDR_IP_ISR))
        self.write32(ADDR_CTRL, CTRL_CONTINUE)


class RtlKernel:
    """`Kernel` by simulation. `limit` is the time limit of a list in cycles."""

    def __init__(self, card: RtlCard | None = None, limit: int = 50_000_000) -> None:
        self._card = card or RtlCard()
        self._limit = limit

    @property
    def card(self) -> RtlCard:
        return self._card

    def run(self, masters: Masters, kv: int, ctl: int, out: int) -> None:
        self._card.map(masters)
        self._card.start(kv, ctl, out)
        passed = self._card.run(self._limit)
        if passed >= self._limit:
            raise RtlFault(f"no end of the list within {self._limit} cycles")
        self._card.finish()
