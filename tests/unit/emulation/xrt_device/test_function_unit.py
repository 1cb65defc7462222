# SPDX-License-Identifier: Apache-2.0
"""A unit whose kernel is a function: the handshake of both protocols, its arguments, and what it raises."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

import pytest
from nearkv_driver.regmap import CTRL_CONTINUE, CTRL_DONE, CTRL_IDLE, CTRL_READY, CTRL_START
from nearkv_driver.xclbin import Argument, Kernel
from nearkv_driver.xclbin.tables import Protocol
from nearkv_emulation.xrt_device.function_unit import FunctionUnit

ARGUMENTS = (
    Argument("pointer", 0, "m_axi", 0x10, 8, "void*"),
    Argument("small", 1, "s_axi_control", 0x1C, 2, "short", pointer=False),
    Argument("wide", 2, "s_axi_control", 0x24, 8, "long", pointer=False),
)
Make = Callable[..., FunctionUnit]


@pytest.fixture
def make() -> Iterator[Make]:
    made = []

    def make(
        protocol: Protocol, function: Callable[[Mapping[str, int]], None] = lambda arguments: None
    ) -> FunctionUnit:
        made.append(FunctionUnit("k_1", Kernel("k", protocol, (), ARGUMENTS), function))
        return made[-1]

    yield make
    for unit in made:
        unit.close()


def finish(unit: FunctionUnit) -> None:
    while unit.busy:
        unit.advance(0.1)


def test_arguments_are_what_the_words_say(make: Make) -> None:
    seen: list[Mapping[str, int]] = []
    unit = make(Protocol.AP_CTRL_HS, seen.append)
    for offset, value in ((0x10, 0x89ABCDEF), (0x14, 1), (0x18, 5), (0x1C, 0xFFFF1234), (0x24, 3), (0x28, 0xF0000000)):
        unit.write32(offset, value)
    unit.write32(0, CTRL_START)
    finish(unit)
    assert seen == [{"pointer": 0x1_89AB_CDEF, "small": 0x1234, "wide": 0xF000_0000_0000_0003}]
    assert unit.read32(0x10) == 0x89ABCDEF
    assert unit.read32(0x18) == 0  # no argument has this word


@pytest.mark.parametrize("protocol", [Protocol.AP_CTRL_HS, Protocol.AP_CTRL_CHAIN])
def test_idle_falls_with_the_start(make: Make, protocol: Protocol) -> None:
    """The host takes IDLE for the end, so it must not see the IDLE of before."""
    go = threading.Event()
    unit = make(protocol, lambda arguments: go.wait(10) and None)
    assert unit.read32(0) == CTRL_IDLE
    unit.write32(0, CTRL_START)
    assert not unit.read32(0) & (CTRL_IDLE | CTRL_DONE)
    unit.advance(0.001)
    assert not unit.read32(0) & (CTRL_IDLE | CTRL_DONE)
    go.set()
    finish(unit)
    assert unit.read32(0) & (CTRL_IDLE | CTRL_DONE) == CTRL_IDLE | CTRL_DONE


def test_hs_forgets_done_once_it_was_read(make: Make) -> None:
    runs: list[int] = []
    unit = make(Protocol.AP_CTRL_HS, lambda arguments: runs.append(1))
    for _ in range(3):
        unit.write32(0, CTRL_START)
        finish(unit)
        assert unit.read32(0) == CTRL_IDLE | CTRL_DONE | CTRL_READY
        assert unit.read32(0) == CTRL_IDLE
    assert len(runs) == 3


def test_chain_keeps_done_until_continue_and_holds_the_next_start(make: Make) -> None:
    runs: list[int] = []
    unit = make(Protocol.AP_CTRL_CHAIN, lambda arguments: runs.append(1))
    unit.write32(0, CTRL_START)
    finish(unit)
    assert unit.read32(0) & CTRL_DONE
    unit.write32(0, CTRL_START)
    finish(unit)
    assert unit.read32(0) & (CTRL_DONE | CTRL_IDLE | CTRL_START) == CTRL_DONE | CTRL_START
    assert len(runs) == 1
    unit.write32(0, CTRL_CONTINUE)
    finish(unit)
    assert unit.read32(0) & CTRL_DONE
    assert len(runs) == 2


def test_a_start_while_hs_is_busy_is_held_once(make: Make) -> None:
    runs: list[int] = []
    gates = [threading.Event() for _ in range(3)]

    def work(arguments: Mapping[str, int]) -> None:
        gates[len(runs)].wait(10)
        runs.append(1)

    unit = make(Protocol.AP_CTRL_HS, work)
    unit.write32(0, CTRL_START)
    unit.advance(0.001)
    unit.write32(0, CTRL_START)
    unit.write32(0, CTRL_START)
    for gate in gates:
        gate.set()
    finish(unit)
    assert len(runs) == 2


def test_what_the_function_raises_comes_out_of_advance(make: Make) -> None:
    def work(arguments: Mapping[str, int]) -> None:
        raise KeyError("lost")

    unit = make(Protocol.AP_CTRL_HS, work)
    unit.write32(0, CTRL_START)
    with pytest.raises(KeyError, match="lost"):
        finish(unit)


def test_words_outside_the_registers_read_zero(make: Make) -> None:
    unit = make(Protocol.AP_CTRL_HS)
    unit.write32(0x2C, 5)
    unit.write32(0xFFC, 5)
    assert (unit.read32(0x2C), unit.read32(0xFFC)) == (0, 0)


def test_kernels_that_cannot_be_started_are_refused(make: Make) -> None:
    with pytest.raises(ValueError, match="kernel k is ap_ctrl_none; it cannot be started"):
        make(Protocol.AP_CTRL_NONE)
    low = Kernel("k", Protocol.AP_CTRL_HS, (), (Argument("a", 0, "m", 0xC, 8, "void*"),))
    with pytest.raises(ValueError, match="kernel k: argument a at 0xc"):
        FunctionUnit("k_1", low, lambda arguments: None)
