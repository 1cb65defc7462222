# SPDX-License-Identifier: Apache-2.0
"""When a drive would have ended each request: arithmetic on a time line. Moves no data and never sleeps.

A request of n bytes takes a fixed time of its own, which grows little with n and passes beside that of others, and the
drive's shared time: n / rate, one request after the other, reads and writes alike. One request at a time is therefore
as slow as the size table says, and many in flight reach the rate.

The SmartSSD's rates are those of published systems: 3.0 GB/s P2P read (HILOS, ASPLOS 2026, as quoted by readers' notes)
and 1.5 to 1.7 GB/s P2P write (Smart-Infinity, HPCA 2024, figure 14). The times by size are those of AMD's p2p_bandwidth
example on the U.2 platform (synchronous pread and pwrite, 4 KiB to 128 MiB), less n / (the rate that it ends at).

Not known of a real drive, and not modelled: its most requests per second, how reads and writes share flash channels,
slow phases of long writes, garbage collection, and what a flush costs.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

# GB/s by request size, one request at a time.
_SIZES = (4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 128 << 20)
_READ_GB_S = (0.05, 0.31, 0.87, 1.55, 1.59, 2.15, 2.28, 2.36)
_WRITE_GB_S = (0.16, 0.37, 0.68, 0.92, 0.99, 1.02, 1.03, 1.04)


@dataclass(frozen=True)
class Direction:
    """Reads or writes: `rate` in bytes per second, `own_s` the (bytes, seconds) that a request takes beside it."""

    rate: float
    own_s: tuple[tuple[int, float], ...] = ((1, 0.0),)

    def alone_s(self, nbytes: int) -> float:
        """A request of this size when the drive does nothing else."""
        return self._own(nbytes) + nbytes / self.rate

    def _own(self, nbytes: int) -> float:
        """Between the sizes of the table in proportion to the logarithm; its ends outside."""
        sizes = [size for size, _ in self.own_s]
        i = bisect_right(sizes, nbytes)
        if i == 0 or i == len(sizes):
            return self.own_s[min(i, len(sizes) - 1)][1]
        (low, low_s), (high, high_s) = self.own_s[i - 1], self.own_s[i]
        return low_s + (high_s - low_s) * math.log(nbytes / low) / math.log(high / low)


@dataclass(frozen=True)
class Drive:
    """`endurance_nbytes`: what it is rated to take in its life, 0 where that is not known."""

    read: Direction
    write: Direction
    endurance_nbytes: int = 0


def _table(gb_s: Sequence[float]) -> tuple[tuple[int, float], ...]:
    top = gb_s[-1] * 1e9
    return tuple((n, max(0.0, n / (r * 1e9) - n / top)) for n, r in zip(_SIZES, gb_s, strict=True))


# 7.008 PB written at 3 months' retention: the rating that HILOS reckons with, as quoted by readers' notes.
SMARTSSD = Drive(
    Direction(3.0e9, _table(_READ_GB_S)), Direction(1.6e9, _table(_WRITE_GB_S)), endurance_nbytes=7_008_000_000_000_000
)


class TimeLine:
    """One drive's time, in seconds of the caller's clock. Threads may share it."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self._lock = threading.Lock()
        self._busy_until = 0.0

    def ends(self, now: float, nbytes: int, *, write: bool) -> float:
        """When a request that arrives `now` has ended; it takes its share of the drive's time."""
        direction = self.drive.write if write else self.drive.read
        with self._lock:
            self._busy_until = max(self._busy_until, now) + nbytes / direction.rate
            return max(self._busy_until, now + direction.alone_s(nbytes))
