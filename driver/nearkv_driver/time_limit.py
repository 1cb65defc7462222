# SPDX-License-Identifier: Apache-2.0
"""How long a list may take: on the machine's clock, and in clock cycles where a simulated card counts its own time;
and how long the loading of a binary.

Arithmetic only: it neither waits nor reads a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearkv_driver.commands import AttendJob
from nearkv_driver.regmap import WORD_BYTES
from nearkv_driver.sizes import padded
from nearkv_driver.transport import CardInfo

WALL_S = 60.0
# Of loading a binary. XRT's emulation sleeps for 10 s in it, and starts a simulator.
LOAD_S = 300.0
# Of a list that does little; and how many times longer than its words of K and V, one per cycle, another one may take.
CYCLES_LEAST, CYCLES_PER_WORD = 20_000_000, 16
# Rows that a kernel computes while it walks over K and V once; with more it walks again.
_ROWS_PER_WALK = 8
# Simulated cycles per second of the machine that even a slow one reaches while it writes waveforms.
_SLOWEST_HZ = 1_000
# One pause: long enough to cost nothing, short enough to keep the limit and to let an interrupt through. In cycles it
# is a fixed number, so that a simulated list sees its registers read in the same cycles each time.
_SLICE_S, _LEAST_S, _SLICE_CYCLES = 0.05, 0.001, 4096


@dataclass(frozen=True)
class TimeLimit:
    """`wall_s` seconds of the machine; `cycles` of the card's `clock_hz`, both 0 where the card lives in real time."""

    wall_s: float
    cycles: int = 0
    clock_hz: int = 0

    @classmethod
    def of(cls, info: CardInfo, jobs: Sequence[AttendJob], timeout_s: float | None) -> TimeLimit:
        """The limit of a list of these jobs; `timeout_s` replaces what the machine's clock allows."""
        if not (info.simulated and info.clock_hz):
            return cls(WALL_S if timeout_s is None else timeout_s)
        cycles = info.timeout_cycles or CYCLES_LEAST + CYCLES_PER_WORD * sum(map(_words, jobs))
        return cls(cycles / _SLOWEST_HZ if timeout_s is None else timeout_s, cycles, info.clock_hz)


class Watch:
    """One wait for a list: how long to pause next and when to give up."""

    def __init__(self, limit: TimeLimit) -> None:
        self._limit = limit
        self.cycles = 0  # that passed in pauses

    def pause_s(self, elapsed_s: float) -> float:
        """The next pause in the card's seconds; it counts as passed. `elapsed_s`: since START, by the machine."""
        limit = self._limit
        if not limit.clock_hz:
            return min(_SLICE_S, max(_LEAST_S, limit.wall_s - elapsed_s))
        cycles = min(_SLICE_CYCLES, limit.cycles - self.cycles)
        self.cycles += cycles
        return cycles / limit.clock_hz

    def over(self, elapsed_s: float) -> bool:
        limit = self._limit
        return elapsed_s >= limit.wall_s or (limit.clock_hz > 0 and self.cycles >= limit.cycles)

    def passed(self, elapsed_s: float) -> str:
        """How long it was, in words."""
        if not self._limit.clock_hz:
            return f"{elapsed_s:.1f} s"
        clock_hz = self._limit.clock_hz
        simulated_ms = self.cycles / clock_hz * 1e3
        return f"{self.cycles} cycles ({simulated_ms:.3f} ms at {clock_hz / 1e6:g} MHz, simulated in {elapsed_s:.1f} s)"


def _words(job: AttendJob) -> int:
    """Words of K and V that a kernel reads, or computes with again, for a job."""
    tokens = int(job.segments["tokens"].sum()) + (0 if job.new_k is None else len(job.new_k))
    walks = -(-len(job.q) // _ROWS_PER_WALK)
    return walks * tokens * 2 * (padded(job.head_size) * 2 // WORD_BYTES)
