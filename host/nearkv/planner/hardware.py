# SPDX-License-Identifier: Apache-2.0
"""What a system is made of, as values: drives, cards, GPUs, hosts. Every figure in base units, checked when it is made.

The figures themselves are TOML files (`hardware/*.toml`, or a user's own); `hardware_files` reads them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field, fields
from typing import Any

from nearkv.errors import UserError
from nearkv.planner.units import CLOCK, COMPUTE, MONEY, NUMBER, POWER, RATE, SIZE, SMALLEST, TIME, Kind, Limits


def quantity(kind: Kind, least: float, most: float, *, above: bool = False, default: float | None = None) -> Any:
    """A field in base units of `kind`; required without a default."""
    limits = {"limits": Limits(kind, least, most, above)}
    return field(metadata=limits) if default is None else field(default=default, metadata=limits)


RATE_TOP = 1e15  # bytes per second: nothing moves faster than 1 PB/s
ROWS_TOP = 1 << 20  # rows of a product


def rate(least: float = 0.0, default: float | None = None) -> Any:
    """Bytes per second."""
    return quantity(RATE, least, RATE_TOP, above=least == 0.0 and default is None, default=default)


def watts() -> Any:
    """A field of watts, 0 by default."""
    return quantity(POWER, 0.0, 1e5, default=0.0)


def dollars() -> Any:
    """A field of US dollars, 0 by default."""
    return quantity(MONEY, 0.0, 1e8, default=0.0)


class Checked:
    """Refuses a value outside its field's limits by name."""

    name: str

    def __post_init__(self) -> None:
        for entry in fields(self):  # type: ignore[arg-type]
            limits = entry.metadata.get("limits")
            if limits is not None:
                limits.check(getattr(self, entry.name), f"{self.name}: {entry.name}")


@dataclass(frozen=True)
class SizeTable:
    """(request bytes, GB/s alone) pairs, ascending: how fast one request at a time is, by its size."""

    read: tuple[tuple[float, float], ...] = ()
    write: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        for what, rows in (("read", self.read), ("write", self.write)):
            sizes = [size for size, _ in rows]
            if sizes != sorted(set(sizes)) or any(not SMALLEST <= v < math.inf for row in rows for v in row):
                raise UserError(f"by_size.{what}: sizes must ascend, sizes and rates must be positive")

    def own_s(self, nbytes: float, *, write: bool = False) -> float:
        """What a request takes beside its share of the drive's rate; between sizes by the logarithm."""
        rows = self.write if write else self.read
        if not rows:
            return 0.0
        top = rows[-1][1]
        own = [max(0.0, n / r - n / top) for n, r in rows]
        i = bisect_right([n for n, _ in rows], nbytes)
        if i in (0, len(rows)):
            return own[min(i, len(rows) - 1)]
        (low, _), (high, _) = rows[i - 1], rows[i]
        return own[i - 1] + (own[i] - own[i - 1]) * math.log(nbytes / low) / math.log(high / low)


@dataclass(frozen=True)
class RowTable:
    """(rows, bytes of weights per second) pairs, ascending from one row: how fast products of few rows take a layer's
    weights, and those of the head, whose matrix is another shape. Without `head` it is as fast as a layer."""

    layer: tuple[tuple[float, float], ...] = ()
    head: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        if self.head and not self.layer:
            raise UserError("by_rows.head stands without by_rows.layer")
        for what, rows in (("layer", self.layer), ("head", self.head)):
            counts = [count for count, _ in rows]
            if not rows:
                continue
            if counts[0] != 1 or counts != sorted(set(counts)) or any(n % 1 or n > ROWS_TOP for n in counts):
                raise UserError(
                    f"by_rows.{what}: rows are {', '.join(f'{n:g}' for n in counts)}; whole numbers that ascend from 1 "
                    f"to {ROWS_TOP} at most are expected"
                )
            for count, rate in rows:
                if not SMALLEST <= rate <= RATE_TOP:
                    raise UserError(f"by_rows.{what}: {rate:g} B/s at {count:g} rows is impossible; "
                                    f"{SMALLEST:g} to {RATE_TOP:g} B/s is allowed")  # fmt: skip

    def seconds(self, nbytes: float, rows: float, *, head: bool = False) -> tuple[float, bool]:
        """(time of products of `rows` rows with so many bytes of weights, whether the table knows it). Between rows by
        even steps of time; with more rows than the last, what the last takes at least."""
        table = (self.head or self.layer) if head else self.layer
        if not table:
            return 0.0, False
        i = bisect_right([count for count, _ in table], rows)
        if i in (0, len(table)):
            return nbytes / table[max(0, i - 1)][1], rows <= table[-1][0]
        (low, slow), (high, fast) = table[i - 1], table[i]
        return nbytes * (1 / slow + (1 / fast - 1 / slow) * (rows - low) / (high - low)), True


@dataclass(frozen=True)
class Drive(Checked):
    """An SSD. `read` and `write` are what its host link gets with large requests, many in flight."""

    name: str
    capacity: float = quantity(SIZE, 1e6, 1e18)
    read: float = rate()
    write: float = rate()
    p2p_read: float = rate(default=0.0)
    p2p_write: float = rate(default=0.0)
    endurance: float = quantity(SIZE, 0.0, 1e21, default=0.0)
    power: float = watts()
    price: float = dollars()
    by_size: SizeTable = field(default_factory=SizeTable)

    def request_s(self, nbytes: float, in_flight: int, *, peer: bool, write: bool = False) -> float:
        """Time per request of a long run of equal ones, `in_flight` at a time."""
        best = self.best(peer=peer, write=write)
        alone = self.by_size.own_s(nbytes, write=write) + nbytes / best
        return max(nbytes / best, alone / in_flight)

    def best(self, *, peer: bool, write: bool = False) -> float:
        """Bytes per second with large requests; `peer`: to or from the FPGA beside it."""
        if peer:
            return self.p2p_write if write else self.p2p_read
        return self.write if write else self.read


@dataclass(frozen=True)
class Card(Checked):
    """A computational storage card: its drive, FPGA memory and host link. `launch`: registers and status of one kernel
    start; `dma`: what a transfer between host and card takes beside its bytes. `kernel_rate`: K and V that another
    kernel than this project's RTL takes, beside `job` for each; 0: the RTL's cycles at `clock`."""

    name: str
    drive: Drive
    memory: float = quantity(SIZE, 1e6, 1e15)
    memory_rate: float = rate()
    clock: float = quantity(CLOCK, 1e6, 2e9)
    link: float = rate()
    launch: float = quantity(TIME, 0.0, 1.0)
    dma: float = quantity(TIME, 0.0, 1.0)
    kernel_rate: float = rate(default=0.0)
    job: float = quantity(TIME, 0.0, 1.0, default=0.0)
    power: float = watts()
    price: float = dollars()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.drive.p2p_read or not self.drive.p2p_write:
            raise UserError(f"{self.name}: drive {self.drive.name!r} has no p2p_read and p2p_write")


@dataclass(frozen=True)
class Gpu(Checked):
    """Where the model's own arithmetic runs. `efficiency`: what large matrix products reach of `compute`. `by_rows`:
    measured products of few rows, which take the place of the roofline where it is given."""

    name: str
    compute: float = quantity(COMPUTE, 1e6, 1e18)
    efficiency: float = quantity(NUMBER, 0.0, 1.0, above=True)
    memory: float = quantity(SIZE, 0.0, 1e15)
    memory_rate: float = rate()
    link: float = rate()
    layer_overhead: float = quantity(TIME, 0.0, 1.0)
    power: float = watts()
    idle_power: float = watts()
    price: float = dollars()
    in_host_memory: bool = False
    by_rows: RowTable = field(default_factory=RowTable)


@dataclass(frozen=True)
class Host(Checked):
    """The machine around it. `uplink`: to all cards together. `drives_link`: to its plain drives together; `file_rate`:
    what a program gets from them through memory-mapped files. `attention`: FP16 K and V that the CPU attends to.
    `page_copy`: host time of one small transfer to a card where each buffer goes apart; `job`: of one (sequence, head)
    in a message that holds all. `slots`: cards that a chassis takes; as many chassis as are needed are paid for.
    0: one takes all."""

    name: str
    dram: float = quantity(SIZE, 1e6, 1e16)
    dram_rate: float = rate()
    uplink: float = rate()
    drives_link: float = rate()
    file_rate: float = rate()
    attention: float = rate()
    page_copy: float = quantity(TIME, 0.0, 1.0)
    runtime: float = quantity(SIZE, 0.0, 1e15)
    power: float = watts()
    price: float = dollars()
    chassis_price: float = dollars()
    job: float = quantity(TIME, 0.0, 1.0, default=0.0)
    slots: float = quantity(NUMBER, 0.0, 4096.0, default=0.0)

    def chassis(self, cards: int) -> int:
        """How many chassis hold so many cards."""
        return math.ceil(cards / self.slots) if self.slots else 1
