# SPDX-License-Identifier: Apache-2.0
"""Card memory for extents: aligned, apart, and given back to the card."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from nearkv.extents import ExtentPool, ExtentRun
from nearkv_driver.device import NearDevice

from tests.support.stores import layout

SLOT = layout().slot_nbytes
CRCS = layout().layers * layout().extent_pages * 8


@pytest.fixture
def device() -> Iterator[NearDevice]:
    with NearDevice.open("sw_emu:0?dram=4M&kernel=model") as opened:
        yield opened


@pytest.mark.parametrize("p2p", [True, False])
def test_runs_do_not_overlap(device: NearDevice, p2p: bool) -> None:
    pool = ExtentPool(device, layout(), p2p=p2p)
    runs = [run for n in (1, 2, 3, 1) if (run := pool.take(n, 4 << 20))]
    assert len(runs) == 4
    spans = sorted((run.address, run.address + run.slots * SLOT) for run in runs)
    spans += sorted((run.crc_address, run.crc_address + run.slots * CRCS) for run in runs)
    spans.sort()
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert all(run.address % 4096 == 0 and run.crc_address % 8 == 0 for run in runs)
    assert all(run.pages.p2p == p2p and not run.crcs.p2p for run in runs)
    assert pool.used_nbytes == 7 * SLOT


@pytest.mark.parametrize(("room", "most"), [(1 << 30, 4 << 20), (1 << 20, 1 << 20)])
def test_memory_goes_back_to_the_card(device: NearDevice, room: int, most: int) -> None:
    pool = ExtentPool(device, layout(), p2p=True)
    for _ in range(3):
        runs: list[ExtentRun] = []
        while (run := pool.take(3, room - pool.nbytes)) is not None:
            runs.append(run)
        assert len(runs) >= 4
        assert most // 2 < pool.nbytes <= most
        for run in runs:
            pool.release(run)
        assert (pool.nbytes, pool.used_nbytes) == (0, 0)
