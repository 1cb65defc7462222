# SPDX-License-Identifier: Apache-2.0
"""Figures of the memory behind the Verilated kernel, and what such memory can deliver to a master that only reads.

The model itself is C++ (`harness/ddr4.hpp`); here are its numbers and two functions that need no Verilator. A
channel of 64 bits moves 64 bytes in four DRAM clocks: DDR4-2400 can deliver 19.2 GB/s, one word per cycle at 300 MHz.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache

from nearkv_emulation.build import build
from nearkv_emulation.rtl_build import HARNESS

WORD_BYTES = 64
BURST_CLOCKS = 4  # of the bus, for a word
CLOCK_MHZ = 300
# Drive to card memory through the SmartSSD's switch (HILOS, ASPLOS 2026, as quoted by readers' notes).
FILL_GB_S = 3.0


@dataclass(frozen=True)
class Ddr4:
    """A channel of 64 bits, in DRAM clocks where no unit is named. Defaults: DDR4-2400T, 8 Gbit x8 (JESD79-4)."""

    mhz: int = 1200
    groups: int = 4
    banks: int = 4  # of each group
    row: int = 8192  # bytes of an open row over the channel
    cl: int = 17
    cwl: int = 12
    rcd: int = 17
    rp: int = 17
    ras: int = 39
    rrd_s: int = 4
    rrd_l: int = 6
    faw: int = 26
    ccd_l: int = 6
    rtp: int = 9
    wr: int = 18
    wtr_s: int = 3
    wtr_l: int = 9
    turn: int = 2  # the bus rests so long when a write follows a read
    rfc: int = 420
    refi: int = 9360

    def __post_init__(self) -> None:
        for field in fields(self):
            least, most = LIMITS.get(field.name, (1, 255))
            value = getattr(self, field.name)
            power = field.name in ("groups", "banks", "row")
            if not least <= value <= most or (power and value & (value - 1)):
                kind = "a power of two" if power else "a whole number"
                raise ValueError(f"{field.name}:{value}; {kind} from {least} to {most} is expected")
        if self.groups * self.row < 4096:
            raise ValueError(f"groups:{self.groups},row:{self.row}; together they must hold 4096 bytes")
        if self.refi <= self.refi_floor:
            raise ValueError(
                f"refi:{self.refi}; it must be above {self.refi_floor}, else refresh leaves no time for data"
            )
        if self.ras < self.rcd:
            raise ValueError(f"ras:{self.ras}; it must be at least rcd = {self.rcd}")
        if self.cwl > self.cl:
            raise ValueError(f"cwl:{self.cwl}; it must be at most cl = {self.cl}")

    @property
    def refi_floor(self) -> int:
        """What passes at most from one refresh falling due until the row of the oldest burst is open: rows close, the
        refresh, and four other rows that are opened first."""
        close = max(self.ras, self.cl + BURST_CLOCKS + max(self.wr, self.rtp)) + self.rp
        return close + self.rfc + max(self.faw, 4 * max(self.rrd_s, self.rrd_l)) + self.rcd

    @property
    def peak_gb_s(self) -> float:
        return self.mhz * 2 * 8 / 1000


LIMITS = {
    "mhz": (100, 2000),
    "groups": (1, 8),
    "banks": (1, 16),
    "row": (1024, 65536),
    "rfc": (1, 4000),
    "refi": (100, 100_000),
    "turn": (0, 255),
}


@dataclass(frozen=True)
class Memory:
    """The channel that all masters share: `ddr4`, or without it a word per cycle for each port; the kernel's clock."""

    ddr4: Ddr4 | None = None
    clock_mhz: int = CLOCK_MHZ
    fill_gb_s: float = FILL_GB_S


@dataclass(frozen=True)
class MemoryTiming:
    """Between one master and the channel: latency in cycles, percent of stalled cycles, of reordered answers."""

    latency: int = 40
    stall: int = 0
    reorder: int = 0


@dataclass(frozen=True)
class BusUses:
    """Cycles of the kernel's clock by what a DDR4 channel's bus did in them; each cycle stands in one field.

    A cycle is that of the port whose word began in it or is still being carried (the first, if two began). Else no
    word of the bus's present turn could begin, and the field says why.
    """

    kv: int
    ctl: int
    out: int
    fill: int  # pages from a drive
    refresh: int  # words wait until a refresh has ended
    turn: int  # words wait, their rows are open, and none was carried since the bus changed its direction
    rows: int  # words wait for their rows or their bank group
    nothing: int  # no word waits
    turns: int  # how often the bus changed its direction; no cycles

    @property
    def cycles(self) -> int:
        """All of them."""
        return int(sum(astuple(self))) - self.turns

    def __sub__(self, earlier: BusUses) -> BusUses:
        """What came after `earlier`."""
        return BusUses(*(now - then for now, then in zip(astuple(self), astuple(earlier), strict=True)))


class _Timing(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("latency", "stall", "reorder"))


class _Config(ctypes.Structure):
    _fields_ = (
        ("clock_khz", ctypes.c_uint32),
        ("ddr4", ctypes.c_uint32),
        ("fill_rate", ctypes.c_double),
        ("figures", ctypes.c_uint32 * len(fields(Ddr4))),
    )


def config(memory: Memory) -> _Config:
    """The structure `Config` of harness/config.hpp."""
    figures = astuple(memory.ddr4 or Ddr4())
    packed = (ctypes.c_uint32 * len(figures))(figures[0] * 1000, *figures[1:])
    return _Config(memory.clock_mhz * 1000, memory.ddr4 is not None, memory.fill_gb_s * 1e9, packed)


def pure_read(
    memory: Memory,
    ranges: Sequence[tuple[int, int]],
    timing: MemoryTiming | None = None,
    *,
    outstanding: int = 8,
    beside: Sequence[tuple[int, int]] = (),
    fill: tuple[int, int] = (0, 0),
    limit: int = 100_000_000,
) -> int:
    """Cycles in which a master that only reads gets `ranges` of (address, nbytes), both multiples of 64, in bursts of
    up to 64 words. `beside`: what another port reads meanwhile, burst after burst, to its end too; `fill`: address and
    bytes that come through the switch."""
    flat, flat_beside = ([number for pair in pairs for number in pair] for pairs in (ranges, beside))
    if any(number % WORD_BYTES for number in flat + flat_beside) or not all(n > 0 for _, n in [*ranges, *beside]):
        raise ValueError(f"ranges are pairs of multiples of {WORD_BYTES}, sizes above 0")
    timing = timing or MemoryTiming()
    cycles = _library().nearkv_pure_read(
        ctypes.byref(config(memory)),
        ctypes.byref(_Timing(timing.latency, timing.stall, timing.reorder)),
        (ctypes.c_uint64 * len(flat))(*flat),
        ctypes.c_uint64(len(ranges)),
        ctypes.c_uint32(outstanding),
        (ctypes.c_uint64 * len(flat_beside))(*flat_beside),
        ctypes.c_uint64(len(beside)),
        ctypes.c_uint64(fill[0]),
        ctypes.c_uint64(fill[1]),
        ctypes.c_uint64(limit),
    )
    return _within(cycles, limit)


def pure_fill(memory: Memory, address: int, nbytes: int, *, limit: int = 100_000_000) -> int:
    """Cycles until so many bytes have come through the switch with nothing else on the channel."""
    arguments = (ctypes.c_uint64(address), ctypes.c_uint64(nbytes), ctypes.c_uint64(limit))
    return _within(_library().nearkv_pure_fill(ctypes.byref(config(memory)), *arguments), limit)


def _within(cycles: int, limit: int) -> int:
    if not cycles:
        raise TimeoutError(f"not done within {limit} cycles")
    return cycles


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(build("nearkv_memory", HARNESS, [HARNESS / "pure_reader.cpp"], ("-O2",))))
    library.nearkv_pure_read.restype = library.nearkv_pure_fill.restype = ctypes.c_uint64
    return library
