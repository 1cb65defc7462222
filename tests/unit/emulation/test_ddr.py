# SPDX-License-Identifier: Apache-2.0
"""Memory of an emulated card."""

from __future__ import annotations

import resource

import numpy as np
import pytest
from nearkv_driver.errors import OutOfDeviceMemory
from nearkv_driver.transport import Bank
from nearkv_emulation.ddr import DdrBank, DdrBuffer

PAGE = 4096


def bank(nbytes: int = 16 * PAGE, base: int = 0x4000000000) -> DdrBank:
    return DdrBank(Bank("DDR[0]", 0, base, nbytes), "test")


def test_first_fit_uses_the_lowest_gap() -> None:
    ddr = bank()
    starts = [ddr.take(2 * PAGE) for _ in range(4)]
    assert starts == [0, 2 * PAGE, 4 * PAGE, 6 * PAGE]
    ddr.give(starts[1])
    ddr.give(starts[2])
    assert ddr.take(PAGE) == 2 * PAGE
    assert ddr.take(3 * PAGE) == 3 * PAGE
    assert ddr.take(PAGE) == 8 * PAGE


def test_a_full_bank_says_what_is_left() -> None:
    ddr = bank(4 * PAGE)
    taken = [ddr.take(PAGE) for _ in range(4)]
    ddr.give(taken[0])
    ddr.give(taken[2])
    with pytest.raises(OutOfDeviceMemory, match="8192 are free, 4096 in one piece") as caught:
        ddr.take(PAGE + 1)
    assert (caught.value.needed, caught.value.available, caught.value.bank) == (2 * PAGE, 2 * PAGE, "DDR[0]")
    ddr.give(taken[1])
    assert ddr.take(3 * PAGE) == 0


def test_random_use_never_overlaps_and_loses_nothing() -> None:
    rng = np.random.default_rng(11)
    ddr = bank(64 * PAGE)
    live: dict[int, int] = {}
    for _ in range(2000):
        if live and rng.random() < 0.5:
            start = list(live)[rng.integers(len(live))]
            ddr.give(start)
            del live[start]
            continue
        size = int(rng.integers(1, 9 * PAGE))
        try:
            start = ddr.take(size)
        except OutOfDeviceMemory:
            continue
        end = start + size
        assert all(end <= s or s + n <= start for s, n in live.items())
        assert not ddr.memory[start:end].any()
        ddr.memory[start:end] = 1
        live[start] = -(-size // PAGE) * PAGE
    for start in live:
        ddr.give(start)
    assert ddr.take(64 * PAGE) == 0


def test_addresses_of_live_buffers_are_known() -> None:
    ddr = bank()
    first, second = ddr.take(PAGE), ddr.take(2 * PAGE)
    base = ddr.bank.base
    assert [ddr.holds(base + at) for at in (0, PAGE - 1, PAGE, 3 * PAGE - 1, 3 * PAGE)] == [True] * 4 + [False]
    assert not ddr.holds(base - 1)
    ddr.give(second)
    assert not ddr.holds(base + PAGE)
    ddr.give(first)
    assert not ddr.holds(base)


def test_freed_memory_reads_as_nan() -> None:
    ddr = bank()
    buffer = DdrBuffer(ddr, PAGE, p2p=False)
    buffer.write(bytes(PAGE))
    buffer.sync_to_device(PAGE)
    buffer.free()
    assert np.isnan(ddr.memory[:PAGE].view(np.float16)).all()


def test_a_large_bank_costs_only_what_is_touched() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ddr = bank(64 << 30, base=0x40_0000_1000)
    buffers = [DdrBuffer(ddr, (4 << 30) - PAGE, p2p=True) for _ in range(15)]
    for buffer in buffers:
        buffer.view(1, buffer.nbytes - 1)[0] = 1
    for buffer in buffers:
        buffer.free()
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 1 << 20
