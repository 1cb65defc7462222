# SPDX-License-Identifier: Apache-2.0
"""A list can be prepared while another runs, one at a time is started, and what took how long can be told."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import BufferMisuse
from nearkv_driver.sizes import state_nbytes

from tests.support.cards import SMALL, job_over, stored


@pytest.fixture
def device() -> Iterator[NearDevice]:
    with NearDevice.open(SMALL) as opened:
        yield opened


def test_a_list_prepared_while_another_runs_gives_the_same_result(device: NearDevice) -> None:
    buffer, _, _ = stored(device)
    (alone,) = device.attend([job_over(buffer)])
    first = device.start(device.prepare([job_over(buffer, tokens=64), job_over(buffer, tokens=32)]))
    second = device.prepare([job_over(buffer)])
    with pytest.raises(BufferMisuse, match="a list is in flight"):
        device.start(second)
    assert len(device.wait(first)) == 2
    (result,) = device.wait(device.start(second))
    np.testing.assert_array_equal(result.o, alone.o)
    assert device.traffic.lists == 3


def test_q_of_a_job_without_an_output_is_overhead(device: NearDevice) -> None:
    buffer, _, _ = stored(device)
    state = device.alloc(state_nbytes(3, 64))
    before = device.traffic
    device.attend([job_over(buffer, output=False, state_out=state.address)])
    between = device.traffic
    assert between.down_payload == before.down_payload
    device.attend([job_over(buffer, state_in=state.address)])
    assert device.traffic.down_payload == between.down_payload + 3 * 64 * 4


def test_checksums_of_streamed_pages_are_counted_apart(device: NearDevice) -> None:
    buffer = device.alloc(4096)
    device.upload_checksums(buffer, bytes(24), 8)
    assert (device.traffic.checksum_nbytes, device.traffic.upload_nbytes) == (24, 0)


def test_link_and_kernel_times_are_told_in_order() -> None:
    ticks = iter(range(1000))
    told: list[tuple[str, float, float]] = []
    device = NearDevice.open(
        SMALL, clock=lambda: float(next(ticks)), record=lambda what, begin, end: told.append((what, begin, end))
    )
    with device:
        buffer, _, _ = stored(device)
        told.clear()
        device.attend([job_over(buffer)])
    assert [what for what, _, _ in told] == ["link", "kernel", "link"]
    assert all(begin < end for _, begin, end in told)
    assert all(a[2] <= b[1] for a, b in pairwise(told))
