# SPDX-License-Identifier: Apache-2.0
"""What the cells of a netlist that Yosys mapped to UltraScale+ cost, and how signals pass through them.

A level is a LUT, a wide multiplexer, a carry chain of any length, or a multiplier without registers. Knows no delays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields


@dataclass(frozen=True)
class Resources:
    """What a netlist takes of a part; a BRAM36 counts as two halves."""

    luts: int = 0
    flip_flops: int = 0
    bram18: int = 0
    uram: int = 0
    dsps: int = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def times(self, count: int) -> Resources:
        """`count` copies."""
        return Resources(*(count * number for number in astuple(self)))


RESOURCES = tuple(field.name for field in fields(Resources))

# The part of the SmartSSD: AMD's Kintex UltraScale+ KU15P.
KU15P = Resources(luts=522_720, flip_flops=1_045_440, bram18=2 * 984, uram=128, dsps=1_968)

_LUT = Resources(luts=1)
_FLIP_FLOP = Resources(flip_flops=1)
# LUTs of the memories that are made of LUTs.
_LUT_MEMORIES = {
    "RAM32X1S": 1, "RAM64X1S": 1, "RAM128X1S": 2, "RAM256X1S": 4, "RAM512X1S": 8,
    "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM256X1D": 8,
    "RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8, "RAM64X8SW": 8,
    "SRL16E": 1, "SRLC32E": 1,
}  # fmt: skip
_FLIP_FLOPS = ("FDRE", "FDSE", "FDCE", "FDPE")
_BLOCKS = {
    "RAMB18E2": Resources(bram18=1),
    "RAMB36E2": Resources(bram18=2),
    "URAM288": Resources(uram=1),
}
_MULTIPLIER = "DSP48E2"
_CARRY = "CARRY4"
_CLOCKS = ("C", "CLK", "WCLK", "CLKARDCLK", "CLKBWRCLK")
# Address pins of LUT memories and the outputs that follow them at once.
_ADDRESSES = (
    (re.compile(r"ADDR([A-H])$"), "DO{0}"),
    (re.compile(r"DPRA\d*$"), "DPO"),
    (re.compile(r"A\d*$"), "SPO"),
    (re.compile(r"A\d*$"), "O"),
    (re.compile(r"A\d*$"), "Q"),
)

# Bits of a pin; a constant has no number.
Pins = Mapping[str, tuple[int | None, ...]]


@dataclass(frozen=True)
class Step:
    """A way through a cell. `carries` counts CARRY4; a chain counts one level where it is entered."""

    source: int
    target: int
    levels: int
    carries: int = 0


@dataclass(frozen=True)
class Timing:
    """How a cell takes part in paths: ways through it, nets that it starts, nets that end in it."""

    steps: tuple[Step, ...] = ()
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()


def resources(kind: str) -> Resources:
    """What one cell takes. Raises ValueError for a cell that is not known here."""
    if re.fullmatch(r"LUT[1-6]|INV", kind):
        return _LUT
    if kind in _FLIP_FLOPS:
        return _FLIP_FLOP
    if kind in _LUT_MEMORIES:
        return Resources(luts=_LUT_MEMORIES[kind])
    if kind in _BLOCKS:
        return _BLOCKS[kind]
    if kind == _MULTIPLIER:
        return Resources(dsps=1)
    if kind == _CARRY or re.fullmatch(r"MUXF[789]", kind):
        return Resources()
    raise ValueError(f"cell {kind}: it is not known what this takes of a part")


def timing(kind: str, inputs: Pins, outputs: Pins, parameters: Mapping[str, str]) -> Timing:
    """Ways through one cell. Raises ValueError for a multiplier with registers, which Yosys does not make today."""
    resources(kind)
    if kind == _CARRY:
        return Timing(steps=tuple(_carry(inputs, outputs)))
    if kind == _MULTIPLIER:
        used = [name for name, value in parameters.items() if name.endswith("REG") and "1" in value]
        if used:
            raise ValueError(f"cell {kind}: {', '.join(sorted(used))} in use; paths through such a cell are not known")
        return Timing(steps=tuple(_every(inputs, outputs)))
    if kind in _FLIP_FLOPS or kind in _BLOCKS:
        return Timing(starts=_nets(outputs), ends=_nets(_clocked(inputs)))
    if kind in _LUT_MEMORIES:
        steps = tuple(_reads(inputs, outputs))
        # A shift register's last stage follows no address.
        starts = _nets({name: bits for name, bits in outputs.items() if name == "Q31"})
        return Timing(steps, starts, _nets(_clocked(inputs)))
    return Timing(steps=tuple(_every(inputs, outputs)))


def _every(inputs: Pins, outputs: Pins) -> Iterator[Step]:
    for source in _nets(inputs):
        for target in _nets(outputs):
            yield Step(source, target, 1)


def _reads(inputs: Pins, outputs: Pins) -> Iterator[Step]:
    for pin, bits in inputs.items():
        for pattern, output in _ADDRESSES:
            found = pattern.match(pin)
            if found:
                yield from _every({pin: bits}, {"": outputs.get(output.format(*found.groups()), ())})


def _carry(inputs: Pins, outputs: Pins) -> Iterator[Step]:
    """Sum bit i follows S[i] and everything below it; carry bit i follows DI[i] and S[i] and everything below."""
    for pin, entered in (("CI", 0), ("CYINIT", 1), ("DI", 1), ("S", 1)):
        for bit, source in enumerate(inputs.get(pin, ())):
            if source is None:
                continue
            first_sum = bit + 1 if pin == "DI" else bit
            targets = [*outputs.get("O", ())[first_sum:], *outputs.get("CO", ())[bit:]]
            for target in targets:
                if target is not None:
                    yield Step(source, target, entered, 1)


def _clocked(inputs: Pins) -> Pins:
    return {name: bits for name, bits in inputs.items() if name not in _CLOCKS}


def _nets(pins: Pins) -> tuple[int, ...]:
    return tuple(dict.fromkeys(bit for bits in pins.values() for bit in bits if bit is not None))
