# SPDX-License-Identifier: Apache-2.0
"""The time line of a drive: one request at a time, many in flight, reads beside writes."""

from __future__ import annotations

import pytest
from nearkv_emulation.drive_model import SMARTSSD, Direction, Drive, TimeLine

KIB = 1 << 10
# AMD's table, GB/s, for one request at a time; it ends at 2.36 and 1.04 GB/s, the drive of the model at 3.0 and 1.6.
READ = {4: 0.05, 16: 0.31, 64: 0.87, 256: 1.55, 1024: 1.59, 4096: 2.15, 16384: 2.28, 131072: 2.36}
WRITE = {4: 0.16, 16: 0.37, 64: 0.68, 256: 0.92, 1024: 0.99, 4096: 1.02, 16384: 1.03, 131072: 1.04}


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("kib", READ)
def test_one_request_at_a_time_is_as_slow_as_the_table(kib: int, write: bool) -> None:
    table, rate, top = (WRITE, 1.6e9, 1.04e9) if write else (READ, 3.0e9, 2.36e9)
    nbytes = kib * KIB
    wanted = nbytes / (table[kib] * 1e9) - nbytes / top + nbytes / rate
    line = TimeLine(SMARTSSD)
    now = 100.0
    for _ in range(3):
        ends = line.ends(now, nbytes, write=write)
        assert ends - now == pytest.approx(wanted)
        now = ends


@pytest.mark.parametrize(("kib", "low", "high"), [(8, 4, 16), (100, 64, 256), (2000, 1024, 4096)])
def test_a_request_between_two_sizes_takes_a_time_between_theirs(kib: int, low: int, high: int) -> None:
    # The table's drive took longer for 4 KiB than for 16 KiB.
    low_s, found_s, high_s = (SMARTSSD.read.alone_s(n * KIB) for n in (low, kib, high))
    assert min(low_s, high_s) < found_s < max(low_s, high_s)


def test_outside_the_table_the_time_of_its_own_stays() -> None:
    for size, end in ((1, 4), (1 << 20, 131072)):
        own = [SMARTSSD.write.alone_s(n * KIB) - n * KIB / 1.6e9 for n in (size, end)]
        assert own[0] == pytest.approx(own[1])


@pytest.mark.parametrize(("depth", "kib", "gb_s"), [(1, 4, 0.05), (4, 4, 0.2), (16, 1024, 3.0), (256, 4, 3.0)])
def test_requests_in_flight_share_the_rate(depth: int, kib: int, gb_s: float) -> None:
    line, nbytes, count = TimeLine(SMARTSSD), kib * KIB, 4096
    slots = [0.0] * depth
    for _ in range(count):
        first = min(range(depth), key=slots.__getitem__)
        slots[first] = line.ends(slots[first], nbytes, write=False)
    rate = count * nbytes / max(slots) / 1e9
    assert rate == pytest.approx(gb_s, rel=0.03)
    assert rate <= 3.0


def test_reads_and_writes_take_turns() -> None:
    line = TimeLine(Drive(Direction(100.0), Direction(50.0)))
    assert line.ends(0.0, 100, write=True) == 2.0
    assert line.ends(0.0, 100, write=False) == 3.0
    assert line.ends(10.0, 100, write=False) == 11.0
