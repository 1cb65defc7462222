# SPDX-License-Identifier: Apache-2.0
"""The memory behind the RTL kernel, read by a master that does nothing else. Needs a C++ compiler, no Verilator."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nearkv_emulation.memory_model import Ddr4, Memory, MemoryTiming, pure_fill, pure_read

from tests.support.rtl_tools import needs

pytestmark = needs("g++")

BASE = 0x40_0000_0000
MIB = 1 << 20
DDR = Memory(Ddr4())


def rate(memory: Memory, ranges: list[tuple[int, int]], **options: object) -> float:
    """Words per cycle."""
    return sum(n for _, n in ranges) / 64 / pure_read(memory, ranges, **options)  # type: ignore[arg-type]


def test_an_ideal_memory_delivers_a_word_per_cycle_after_its_latency() -> None:
    for latency in (1, 40, 100):
        few = pure_read(Memory(), [(BASE, 64)], MemoryTiming(latency))
        many = pure_read(Memory(), [(BASE, 64 * 64)], MemoryTiming(latency))
        assert many - few == 63
        assert few == latency + 1


def test_a_first_word_waits_for_its_row() -> None:
    """tRCD + CL + burst = 38 DRAM clocks are 9.5 cycles beside the 40 of the way."""
    first = pure_read(DDR, [(BASE, 64)])
    assert first == pure_read(Memory(), [(BASE, 64)]) + 10


def test_long_reads_lose_only_what_refresh_takes() -> None:
    figures = Ddr4()
    lost = (figures.rfc + figures.rp) / figures.refi
    found = rate(DDR, [(BASE, 16 * MIB)])
    assert 0.99 * (1 - lost) <= found <= 1 - lost + 0.002
    rare = rate(Memory(replace(figures, refi=100_000)), [(BASE, 16 * MIB)])
    assert found < rare <= 1


def test_words_of_different_rows_of_one_bank_wait_for_the_whole_row_cycle() -> None:
    figures = Ddr4()
    step = figures.groups * figures.banks * figures.row
    ranges = [(BASE + i * step, 64) for i in range(1000)]
    cycles = pure_read(DDR, ranges, outstanding=64) / len(ranges)
    busy = 1 - (figures.rfc + figures.rp) / figures.refi
    assert cycles * 4 * busy == pytest.approx(figures.ras + figures.rp, rel=0.05)


@pytest.mark.parametrize("words", [1, 32])
def test_a_row_of_a_busy_bank_costs_a_stream_two_openings(words: int) -> None:
    """A port streams from one row, another port now and then wants a second row of the same banks: each time the
    stream waits until that row and then its own have been opened, and no longer."""
    figures = Ddr4()
    stream = [(BASE + i % 2 * 4096, 4096) for i in range(512)]
    other_row = BASE + figures.groups * figures.banks * figures.row
    count = 100
    extra = rate_cycles(stream, [(other_row, words * 64)] * count) - rate_cycles(stream)
    opening = (figures.rp + figures.rcd + figures.cl) / 4
    # One row command per cycle for the four banks of a stream, twice; refresh takes a part of all cycles.
    assert count * words <= extra <= 1.05 * count * (words + 2 * opening + 2 * figures.groups)


def rate_cycles(stream: list[tuple[int, int]], beside: list[tuple[int, int]] | None = None) -> int:
    return pure_read(DDR, stream, beside=beside or [])


def test_ports_that_want_the_same_banks_end_at_any_offset() -> None:
    """Two streams that need different rows of the same banks all the time never wait for each other."""
    step = Ddr4().groups * Ddr4().banks * Ddr4().row
    for offset in range(0, 512, 64):
        stream = [(BASE + i % 3 * step, 512) for i in range(200)]
        beside = [(BASE + (i + 1) % 3 * step + offset, 512) for i in range(200)]
        # At worst every burst opens its rows anew.
        assert pure_read(DDR, stream, beside=beside, limit=400 * 40) > 400 * 8


def test_the_order_of_k_and_v_costs_nothing() -> None:
    """Blocks of 16 KiB from two places by turns, as the kernel reads them, against one piece."""
    k, v = BASE, BASE + 32 * 1024
    turns = [(place + i * 64 * 1024, 16 * 1024) for i in range(128) for place in (k, v)]
    assert rate(DDR, turns) == pytest.approx(rate(DDR, [(BASE, 4 * MIB)]), rel=0.001)


def test_one_bank_group_is_bound_by_the_long_distance_of_columns() -> None:
    """Every fourth word lies in one group: 6 clocks each, not 4."""
    ranges = [(BASE + i * 256, 64) for i in range(128)]
    ideal = pure_read(Memory(), ranges, outstanding=64)
    assert pure_read(DDR, ranges, outstanding=64) >= ideal + 128 * (6 - 4) / 4 - 8


@pytest.mark.parametrize(("mhz", "clock"), [(1200, 300), (800, 300), (1200, 400), (1600, 250)])
def test_the_slower_of_port_and_dram_sets_the_rate(mhz: int, clock: int) -> None:
    memory = Memory(replace(Ddr4(), mhz=mhz), clock)
    gb_s = rate(memory, [(BASE, 4 * MIB)]) * 64 * clock / 1000
    most = min(64 * clock / 1000, Ddr4(mhz=mhz).peak_gb_s)
    assert 0.90 * most <= gb_s <= most


@pytest.mark.parametrize("memory", [Memory(), DDR])
def test_pages_come_at_the_rate_of_the_switch(memory: Memory) -> None:
    seconds = pure_fill(memory, BASE, 4 * MIB) / (memory.clock_mhz * 1e6)
    assert 4 * MIB / seconds / 1e9 == pytest.approx(3.0, rel=0.001)
    faster = replace(memory, fill_gb_s=6.0)
    assert pure_fill(faster, BASE, 4 * MIB) == pytest.approx(pure_fill(memory, BASE, 4 * MIB) / 2, rel=0.001)


def test_pages_that_come_take_bandwidth_from_reads() -> None:
    """What comes in is missing at least, and the turns of the bus cost more; an ideal memory has room for both."""
    ranges = [(BASE, 16 * MIB)]
    alone = rate(DDR, ranges)
    share = DDR.fill_gb_s * 1e9 / (64 * DDR.clock_mhz * 1e6)
    together = rate(DDR, ranges, fill=(BASE + 64 * MIB, 64 * MIB))
    assert alone - 2 * share <= together <= alone - share
    assert rate(Memory(), ranges, fill=(BASE + 64 * MIB, 64 * MIB)) == rate(Memory(), ranges)


@pytest.mark.parametrize("clock_mhz", [10, 300, 1000])
@pytest.mark.parametrize(
    "figures",
    [
        {},
        {"mhz": 100},
        {"ras": 255, "rcd": 255},
        {"faw": 255, "rrd_s": 255, "rrd_l": 255},
        {"banks": 1, "groups": 1, "row": 65536, "wr": 255, "wtr_l": 255},
    ],
)
def test_refresh_as_often_as_is_allowed_lets_data_through(figures: dict[str, int], clock_mhz: int) -> None:
    rare = Ddr4(**figures, refi=100_000)
    memory = Memory(replace(rare, refi=rare.refi_floor + 1), clock_mhz)
    pure_read(
        memory, [(BASE, 4096), (BASE + MIB, 4096)], MemoryTiming(stall=50), fill=(BASE + 2 * MIB, 4096), limit=10**6
    )


def test_the_model_repeats_itself() -> None:
    ranges = [(BASE + i * 77 * 64 % (64 * MIB), 4096) for i in range(500)]
    timing = MemoryTiming(60, 20, 20)
    assert pure_read(DDR, ranges, timing) == pure_read(DDR, ranges, timing)
    assert pure_read(DDR, ranges, timing) > pure_read(DDR, ranges, MemoryTiming(60))


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        ({"groups": 3}, "groups:3; a power of two from 1 to 8"),
        ({"cl": 0}, "cl:0; a whole number from 1 to 255"),
        ({"row": 512}, "row:512"),
        ({"refi": 519}, "refi:519; it must be above 519, else refresh leaves no time for data"),
        ({"cwl": 18}, "cwl:18; it must be at most cl = 17"),
        ({"ras": 3}, "ras:3; it must be at least rcd"),
        ({"groups": 1, "row": 2048}, "together they must hold 4096"),
    ],
)
def test_figures_that_no_memory_has_are_refused(figures: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Ddr4(**figures)


def test_a_reader_that_does_not_end_is_an_error() -> None:
    with pytest.raises(TimeoutError, match="not done within 10 cycles"):
        pure_read(DDR, [(BASE, 4096)], limit=10)
    with pytest.raises(ValueError, match="multiples of 64"):
        pure_read(DDR, [(BASE, 100)])
