# SPDX-License-Identifier: Apache-2.0
"""What every bench needs: a clock, a reset, and numbers in and out of ports. No test of its own."""

from __future__ import annotations

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge, Timer

SEED = 20


def rng() -> random.Random:
    return random.Random(SEED)


def start(dut) -> None:
    """Starts the clock; inputs change after its falling edge."""
    cocotb.start_soon(Clock(dut.clk, 10, unit="ns").start())


async def cycles(dut, n: int = 1) -> None:
    """Waits until n rising edges have passed and the next falling edge has come."""
    for _ in range(n):
        await RisingEdge(dut.clk)
    await FallingEdge(dut.clk)


async def reset(dut, **inputs: int) -> None:
    start(dut)
    for name, value in inputs.items():
        getattr(dut, name).value = value
    dut.rst.value = 1
    await cycles(dut, 3)
    dut.rst.value = 0


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def pack(values: list[int], bits: int) -> int:
    """Values side by side, the first lowest."""
    return sum(unsigned(v, bits) << (i * bits) for i, v in enumerate(values))


def unpack(word: int, bits: int, count: int) -> list[int]:
    return [word >> (i * bits) & ((1 << bits) - 1) for i in range(count)]


async def settle() -> None:
    """Lets inputs that have just changed reach the outputs."""
    await Timer(1, "ns")


def known(signal) -> int | None:
    """The value of an output, or None while some of its bits are X."""
    value = signal.value
    return int(value) if value.is_resolvable else None


async def outcome(dut, limit: int = 2000) -> tuple[int, ...]:
    """Waits for `done`; (bad, detail) of a checker in that cycle."""
    for _ in range(limit):
        await settle()
        if int(dut.done.value):
            found = int(dut.bad.value), int(dut.detail.value)
            await cycles(dut)
            return found
        await cycles(dut)
    raise AssertionError(f"not done within {limit} cycles")
