# SPDX-License-Identifier: Apache-2.0
"""Words of K and V per cycle with DDR4-2400, against a master that only reads, behind the same model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from nearkv_emulation.memory_model import Ddr4, Memory, MemoryTiming, pure_read
from nearkv_emulation.rtl import RtlCard, RtlKernel

from benchmarks.bus_uses import measure
from tests.rtl.test_speed import rate
from tests.support.jobs import build
from tests.support.rtl_tools import needs_verilator, patient
from tests.support.speed_jobs import job

pytestmark = [needs_verilator, patient]

DDR = Memory(Ddr4())
TIMING = MemoryTiming(40)


@pytest.fixture
def card() -> Iterator[RtlCard]:
    """A card of its own for each test: where a refresh falls depends on what ran before."""
    with RtlCard() as card:
        card.memory(DDR)
        for master in range(3):
            card.timing(master, TIMING)
        yield card


@pytest.fixture
def kernel(card: RtlCard) -> RtlKernel:
    return RtlKernel(card)


def pure_rate(head_size: int, tokens: int) -> float:
    """Words per cycle of the reader: K and V of so many tokens in one piece."""
    nbytes = 2 * tokens * head_size * 2
    return nbytes / 64 / pure_read(DDR, [(0x40_0000_0000, nbytes)], TIMING, outstanding=16)


@pytest.mark.parametrize(("head_size", "tokens"), [(64, 4096), (128, 4096), (64, 16384)])
def test_one_long_job(kernel: RtlKernel, head_size: int, tokens: int) -> None:
    """Against the same bytes in one piece, which suits DDR4 best."""
    reader = pure_rate(head_size, tokens)
    found = rate(kernel, [job(head_size, 8, tokens)])
    print(f"{found:.3f} words per cycle, {found / reader:.3f} of {reader:.4f}")  # noqa: T201
    assert 0.90 * reader <= found <= 1


def test_many_short_jobs(kernel: RtlKernel) -> None:
    """Lists, q and outputs share the channel: 72 words beside 1,024 of K and V, so 0.934 of the reader at most."""
    jobs, tokens = 64, 256
    reader = pure_rate(64, jobs * tokens)
    found = rate(kernel, [job(64, 8, tokens, seed=seed) for seed in range(jobs)])
    print(f"{found:.3f} words per cycle, {found / reader:.3f} of {reader:.4f}")  # noqa: T201
    assert 0.90 * reader <= found <= 0.94 * reader


@pytest.mark.parametrize("new", [0, 3])
def test_every_cycle_of_the_bus_has_one_use(card: RtlCard, kernel: RtlKernel, new: int) -> None:
    """Words as the ports count them; all parts together are the cycles that passed."""
    image = build([job(64, 8, 256, new=new, seed=seed) for seed in range(4)])
    before, cycles, words = card.bus_uses(), card.cycles, [card.words(master) for master in range(4)]
    image.run(kernel)
    card.fill(image.base, 64 * 1024)
    card.drain()
    uses = card.bus_uses() - before
    assert uses.cycles == card.cycles - cycles
    moved = [card.words(master) - then for master, then in zip(range(4), words, strict=True)]
    assert [uses.kv, uses.ctl, uses.out, uses.fill] == moved
    assert moved[0] == 4 * 2 * 256 * 2
    assert moved[3] == 1024
    assert min(uses.refresh, uses.turn, uses.rows, uses.nothing, uses.turns) > 0


def test_the_page_says_where_the_cycles_go_today() -> None:
    """A change of the RTL may make that paragraph of docs/rtl.md untrue: benchmarks/bus_uses.py has the new figures."""
    uses, cycles = measure(jobs=64, head_size=64, rows=8, tokens=256)
    page = (Path(__file__).parents[2] / "docs" / "rtl.md").read_text()
    paragraph = next(text for text in page.split("\n\n") if "cycles of the 64 short jobs go" in text)
    figures = (uses.cycles, uses.kv, uses.ctl, uses.out, uses.refresh, uses.turn, uses.rows, uses.nothing, cycles)
    assert [n for n in figures if not re.search(rf"(?<![\d,]){n:,}(?![\d,]*\d)", paragraph)] == []
    assert f"({uses.turns // 2} times" in paragraph


def test_an_ideal_memory_has_no_bus() -> None:
    with RtlCard() as card, pytest.raises(ValueError, match="memory:ideal"):
        card.bus_uses()
