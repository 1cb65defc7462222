# SPDX-License-Identifier: Apache-2.0
"""Time limits of lists: seconds of the machine, and cycles where a simulated card counts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from nearkv_driver.commands import segments
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import DeviceTimeout
from nearkv_driver.registry import parse_url
from nearkv_driver.time_limit import CYCLES_LEAST, CYCLES_PER_WORD, WALL_S, TimeLimit, Watch
from nearkv_driver.transport import CardInfo
from nearkv_emulation.card import EmulatedCard, card_info
from nearkv_emulation.model import ModelKernel

from tests.support.cards import SMALL, job_over

REAL = card_info(parse_url(SMALL))
CLOCKED = replace(REAL, clock_hz=300_000_000)


def test_a_card_in_real_time_has_seconds_and_no_cycles() -> None:
    assert TimeLimit.of(REAL, (), None) == TimeLimit(WALL_S)
    assert TimeLimit.of(REAL, (), 2.5) == TimeLimit(2.5)
    hardware = replace(CLOCKED, simulated=False)
    assert TimeLimit.of(hardware, (), None) == TimeLimit(WALL_S)


def test_the_machine_has_longer_than_any_simulator_needs() -> None:
    limit = TimeLimit.of(CLOCKED, (), None)
    assert limit == TimeLimit(CYCLES_LEAST / 1000, CYCLES_LEAST, 300_000_000)
    assert TimeLimit.of(CLOCKED, (), 2.5) == replace(limit, wall_s=2.5)


def test_a_limit_in_cycles_grows_with_the_list_unless_it_is_given() -> None:
    """300 tokens of d = 96 are 300 x 2 x 3 words, and 17 rows walk over them three times; then 2 new rows, twice."""
    table = segments([(200, 0, 1 << 20, 2 << 20, 0), (100, 208, 3 << 20, 4 << 20, 0)])
    new = job_over(None, head_size=96, rows=2).q.astype("float16")
    job = job_over(None, head_size=96, rows=17, segments=table)
    later = job_over(None, head_size=96, rows=8, new_k=new, new_v=new)
    words = 3 * 300 * 2 * 3 + 2 * 2 * 3
    assert TimeLimit.of(CLOCKED, [job, later], None).cycles == CYCLES_LEAST + CYCLES_PER_WORD * words
    assert TimeLimit.of(replace(CLOCKED, timeout_cycles=5000), [job], None).cycles == 5000


def test_pauses_in_real_time_keep_the_limit() -> None:
    watch = Watch(TimeLimit(2.0))
    assert watch.pause_s(0.0) == 0.05
    assert watch.pause_s(1.99) == pytest.approx(0.01)
    assert watch.pause_s(2.5) == 0.001
    assert not watch.over(1.99)
    assert watch.over(2.0)
    assert watch.passed(2.0) == "2.0 s"


def test_pauses_in_cycles_add_up_to_the_limit_whatever_the_machine_does() -> None:
    watch = Watch(TimeLimit(1000.0, 10_000, 250_000_000))
    pauses = []
    while not watch.over(5.0):
        pauses.append(round(watch.pause_s(5.0) * 250_000_000))
    assert pauses == [4096, 4096, 1808]
    assert watch.cycles == 10_000
    assert watch.passed(5.0) == "10000 cycles (0.040 ms at 250 MHz, simulated in 5.0 s)"
    assert Watch(TimeLimit(1000.0, 10_000, 250_000_000)).over(1000.0)


class NeverEnds(EmulatedCard):
    """A card whose lists end in no pause."""

    def __init__(self, info: CardInfo) -> None:
        super().__init__(info, ModelKernel())
        self.stuck = False
        self.paused_s: list[float] = []

    def pause(self, seconds: float) -> None:
        if self.stuck:
            self.paused_s.append(seconds)
        else:
            super().pause(10.0)


@contextmanager
def stuck(**changes: int) -> Iterator[tuple[NearDevice, NeverEnds]]:
    card = NeverEnds(replace(CLOCKED, **changes))
    with NearDevice.open(card) as device:
        card.stuck = True
        yield device, card


def test_a_list_that_never_ends_is_given_up_by_its_cycles() -> None:
    with stuck(timeout_cycles=10_000) as (device, card):
        with pytest.raises(DeviceTimeout, match=r"nearkv_attend: no end after 10000 cycles \(0\.033 ms") as caught:
            device.attend([job_over(None)])
        assert caught.value.cycles == 10_000
        assert sum(card.paused_s) == pytest.approx(10_000 / CLOCKED.clock_hz)


def test_the_seconds_of_the_machine_hold_for_a_simulated_card_too() -> None:
    with stuck(timeout_cycles=999_999_999) as (device, _):
        with pytest.raises(DeviceTimeout) as caught:
            device.attend([job_over(None)], timeout_s=0.05)
        assert 0.05 <= caught.value.elapsed_s < 3
        assert 0 < caught.value.cycles < 999_999_999
