# SPDX-License-Identifier: Apache-2.0
"""The planner's kernel time against the RTL's cycles behind each memory, for lists that it was not fitted to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nearkv.kvstore import KVStore
from nearkv.planner.device_time import device_time
from nearkv.planner.hardware import Card
from nearkv.planner.hardware_files import load
from nearkv.planner.kernel import DDR4, MEMORIES, JobShape, cycles, fitted
from nearkv_driver import regmap as rm
from nearkv_emulation import card as emulated
from nearkv_emulation.kernel import Masters
from nearkv_emulation.memory_model import Ddr4, Memory, MemoryTiming
from nearkv_emulation.rtl import RtlCard, RtlKernel

from tests.support.jobs import build
from tests.support.rtl_tools import needs_verilator, patient
from tests.support.speed_jobs import job
from tests.support.stores import Mirror, layout

pytestmark = [needs_verilator, patient]
TOLERANCE = 0.05


class Counting:
    """The RTL kernel, with the cycles that its statuses tell added up."""

    def __init__(self, card: RtlCard, memory: str) -> None:
        card.memory(Memory(Ddr4() if memory == DDR4 else None))
        for master in range(3):
            card.timing(master, MemoryTiming(40))
        self._kernel = RtlKernel(card)
        self.cycles = self.jobs = 0

    def run(self, masters: Masters, kv: int, ctl: int, out: int) -> None:
        self._kernel.run(masters, kv, ctl, out)
        header = rm.LIST.unpack(_bytes(masters.ctl, ctl, rm.LIST.nbytes))
        # Statuses leave out the identity handshake's own reply, which has none of K and V.
        for number in range(header["jobs"]):
            status = rm.STATUS.unpack(_bytes(masters.out, out + number * rm.STATUS.nbytes, rm.STATUS.nbytes))
            if status["beats"]:
                self.cycles += status["cycles"]
                self.jobs += 1


def _bytes(regions: list[emulated.Region], address: int, nbytes: int) -> bytes:
    region = next(r for r in regions if r.base <= address < r.base + r.memory.nbytes)
    return region.memory[address - region.base : address - region.base + nbytes].tobytes()


@pytest.fixture(params=MEMORIES)
def memory(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def kernel(memory: str) -> Iterator[Counting]:
    with RtlCard() as card:
        yield Counting(card, memory)


@pytest.mark.parametrize(
    ("count", "shape"),
    [
        (6, JobShape(64, 3, 900)),
        (8, JobShape(128, 4, 1000)),
        (4, JobShape(96, 4, 1500)),
        (4, JobShape(64, 15, 700)),
        (3, JobShape(64, 3, 50)),
    ],
)
def test_lists_of_a_decode_step(kernel: Counting, memory: str, count: int, shape: JobShape) -> None:
    d, rows, tokens = shape.head_size, shape.rows, shape.tokens
    jobs = [job(d, rows, tokens, segment=128, new=1, seed=seed, rest_checked=False) for seed in range(count)]
    build(jobs).run(kernel)
    assert kernel.jobs == count
    assert abs(cycles(shape, count, fitted(memory)) / kernel.cycles - 1) <= TOLERANCE


@pytest.mark.parametrize(("batch", "tokens", "steps"), [(3, 777, 2), (1, 40, 3)])
def test_a_store_that_decodes_on_simulated_rtl(memory: str, batch: int, tokens: int, steps: int) -> None:
    """The formula from the store's own counters, for the memory that the URL names, as `generate --timing` uses it."""
    shape = layout()
    with KVStore.open(shape, [f"hw_emu:0?dram=64M&memory={memory}"]) as store:
        mirror = Mirror(store)
        sequences = [mirror.add() for _ in range(batch)]
        mirror.append(sequences, tokens)
        for _ in range(steps):
            mirror.step(sequences)
        found = device_time(store.stats().cards, shape, load("smartssd", Card), steps=steps, wall_s=1.0)
    assert found is not None
    assert found.counted_cycles > 0
    assert abs(found.formula_cycles / found.counted_cycles - 1) <= TOLERANCE
