# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from nearkv.cli.timing import Timing
from nearkv.errors import UserError
from nearkv.planner.device_time import DeviceTime, card_time, device_time, document, kernel_cycles, memory_of, rows
from nearkv.planner.hardware import Card
from nearkv.planner.hardware_files import load
from nearkv.planner.kernel import DDR4, IDEAL, JobShape, cycles, fitted

from tests.support.figures import card_stats, result
from tests.support.stores import layout

CARD = load("smartssd", Card)


def test_counted_lists_take_what_the_formula_says() -> None:
    """Two lists of four jobs of 1,000 tokens each: 64 elements of FP16 are 2 words, K and V 4."""
    stats = card_stats(lists=2, jobs=8, kernel_beats=8 * 1000 * 4)
    assert kernel_cycles(stats, layout()) == pytest.approx(2 * cycles(JobShape(64, 2, 1000), 4, fitted()))
    assert kernel_cycles(card_stats(lists=0, jobs=0, kernel_beats=0), layout()) == 0


def test_reads_hide_behind_the_kernel_or_the_kernel_behind_them() -> None:
    busy = card_time(card_stats(lists=1, jobs=8, kernel_beats=10**7, streamed_nbytes=10**6), layout(), CARD)
    assert busy.seconds == pytest.approx(busy.link_s + busy.kernel_s)
    reading = card_time(card_stats(lists=1, jobs=8, kernel_beats=10**3, streamed_nbytes=3 * 10**9), layout(), CARD)
    assert reading.seconds == pytest.approx(reading.link_s + 1.0)


def test_a_description_of_another_kernel_counts_by_its_own_rate() -> None:
    """As calibrate writes them: 64 bytes a beat at 1 GB/s, and what each job takes more."""
    other = replace(CARD, kernel_rate=1e9, job=42e-6)
    found = card_time(card_stats(lists=1, jobs=8, kernel_beats=10**6), layout(), other)
    assert found.kernel_s == pytest.approx(64e6 / 1e9 + 8 * 42e-6)


def test_the_slowest_card_counts_per_layer_and_step() -> None:
    slow, fast = card_stats(kernel_beats=10**8), card_stats(kernel_beats=10**5)
    time = device_time([fast, slow], layout(), CARD, steps=5, wall_s=2.0)
    assert isinstance(time, DeviceTime)
    assert time.slowest == card_time(slow, layout(), CARD)
    told = document(time)
    assert told is not None
    assert told["simulated_per_layer_s"] == pytest.approx(time.slowest.seconds / 10)
    assert told["wall_per_layer_s"] == pytest.approx(0.2)
    assert [row.name for row in rows(time, "smartssd")] == ["on smartssd, simulated", "wall time here"]


def test_cycles_that_a_card_counts_stand_beside_the_formula() -> None:
    counting = card_stats("hw_emu:0?memory=ddr4-2400", lists=2, jobs=8, kernel_beats=32000, kernel_cycles=40000)
    time = device_time([counting, card_stats()], layout(), CARD, steps=1, wall_s=1.0)
    assert time is not None
    assert (time.counted_cycles, time.formula_cycles) == (40000, kernel_cycles(counting, layout(), fitted(DDR4)))
    assert rows(time, "smartssd")[-1].value.startswith("40,000 counted, ")


@pytest.mark.parametrize(
    ("url", "simulated", "memory"),
    [
        ("hw_emu:0", True, IDEAL),
        ("hw_emu:0?dram=64M&memory=ideal", True, IDEAL),
        ("hw_emu:0?memory=ddr4-2400", True, DDR4),
        ("hw_emu:0?memory=ddr4-2400,cl:18", True, DDR4),
        ("xrt:0", True, IDEAL),
        ("xrt:0", False, DDR4),
    ],
)
def test_the_formula_is_that_of_the_cards_memory(url: str, simulated: bool, memory: str) -> None:
    card = card_stats(url, lists=2, jobs=8, kernel_beats=32000, kernel_cycles=40000, simulated=simulated)
    assert memory_of(card) == memory
    time = device_time([card], layout(), CARD, steps=1, wall_s=1.0)
    assert time is not None
    assert time.formula_cycles == kernel_cycles(card, layout(), fitted(memory))
    assert time.slowest.kernel_s == kernel_cycles(card, layout(), fitted(DDR4)) / CARD.clock, "of the card in question"


def test_nothing_decoded() -> None:
    assert device_time([card_stats()], layout(), CARD, steps=0, wall_s=0.0) is None
    assert document(None) is None
    assert rows(None, "smartssd")[0].value == "no step was decoded"


def test_the_option_of_generate() -> None:
    timing = Timing.of("smartssd", None, None)
    told = timing.document(result(layout=layout()))
    assert told is not None
    assert (told["steps"], told["layers"], told["card"]) == (2, 2, "smartssd")
    with pytest.raises(UserError, match="no card is called 'nosuch'"):
        Timing.of("nosuch", None, None)
    with pytest.raises(UserError, match="leave out --prompt-lookup"):
        Timing.of("smartssd", None, 4)
    with pytest.raises(UserError, match="leave out --prefill-chunk"):
        Timing.of("smartssd", 64, None)
