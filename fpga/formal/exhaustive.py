# SPDX-License-Identifier: Apache-2.0
"""Proofs by evaluation of the netlist that Yosys makes of a pipeline, registers taken as wires. No solver.

A multiplier (exp2) and 512 x 32 parities (crc32c) are out of a solver's reach; all 2^24 inputs, and a basis of a linear
map, are not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from nearkv_driver.exp2_table import exp2_table

from fpga.formal import netlist

# A pipeline without feedback: its output is this function of the input some cycles before.
WIRES = r"""
(* techmap_celltype = "$_DFF_P_" *)
module wire_dff (input C, input D, output Q);
    assign Q = D;
endmodule
(* techmap_celltype = "$_DFFE_PP_" *)
module wire_dffe (input C, input D, input E, output Q);
    assign Q = D;
endmodule
"""
CHUNK = 1 << 16
FRACTIONS = 1 << 24
ONE = 1 << 24
# Castagnoli's polynomial, lowest bit first
POLYNOMIAL = 0x82F63B78

# what is wrong, or None, and a figure
Finding = tuple[str | None, str]
Check = Callable[[netlist.Netlist], Finding]


def exp2_is_monotone(function: netlist.Netlist) -> Finding:
    """All 2^24 fractions: never falls, stays in [2^24, 2^25), is the table and its chord, is near 2^f."""
    base, slope = (np.array(column, np.uint64) for column in exp2_table())
    last = ONE
    worst = 0.0
    for start in range(0, FRACTIONS, CHUNK):
        fraction = np.arange(start, start + CHUNK, dtype=np.uint64)
        mantissa = netlist.numbers_of(function.evaluate(netlist.bits_of(fraction, 25))).astype(np.int64)
        steps = np.diff(mantissa, prepend=last)
        if (steps < 0).any():
            at = int(fraction[np.argmax(steps < 0)])
            return f"falls at fraction {at}", ""
        if mantissa[0] < ONE or mantissa[-1] >= 2 * ONE:
            return f"{mantissa[0]} to {mantissa[-1]} leaves [2^24, 2^25)", ""
        index, rest = fraction >> np.uint64(14), fraction & np.uint64((1 << 14) - 1)
        chord = base[index] + (slope[index] * rest + np.uint64(1 << 13) >> np.uint64(14))
        wrong = mantissa != np.minimum(chord, np.uint64(2 * ONE - 1)).astype(np.int64)
        if wrong.any():
            return f"is not the chord at fraction {int(fraction[np.argmax(wrong)])}", ""
        exact = np.exp2(fraction.astype(np.float64) / FRACTIONS) * ONE
        worst = max(worst, float(np.abs(mantissa - exact).max()))
        last = int(mantissa[-1])
    return None, f"all 2^24 fractions; at most {worst:.3f} units from 2^f"


def crc_word_is_512_bits(function: netlist.Netlist) -> Finding:
    """The step is linear (Yosys found nothing but XOR in it), so it is right when it is for 0 and each single bit."""
    bits = 32 + 512 + 1  # the clock does nothing
    words = -(-(bits + 1) // 64)
    inputs = np.zeros((bits, words * 64), np.uint8)
    inputs[np.arange(bits), np.arange(bits) + 1] = 1
    packed = np.packbits(inputs, axis=1, bitorder="little").view(np.uint64)
    after = netlist.numbers_of(function.evaluate(packed))
    for column in range(bits):
        state, data = 0, 0
        if 1 <= column <= 32:
            state = 1 << (column - 1)
        elif column:
            data = 1 << (column - 33)
        expected = bit_serial(state, data)
        if int(after[column]) != expected:
            return (
                f"0x{int(after[column]):08x} for register 0x{state:08x} and data 0x{data:x}, not 0x{expected:08x}",
                "",
            )
    return None, f"linear; 0 and all {bits - 1} basis vectors"


def bit_serial(state: int, data: int) -> int:
    """CRC-32C of 64 bytes, bit after bit, lowest first."""
    for bit in range(512):
        feedback = (state ^ data >> bit) & 1
        state = state >> 1 ^ (POLYNOMIAL if feedback else 0)
    return state


@dataclass(frozen=True)
class Function:
    """Ports of a module of properties, what holds of it, and whether Yosys must find nothing but XOR in it."""

    inputs: tuple[str, ...]
    output: str
    check: Check
    linear: bool = False


FUNCTIONS = {
    "exp2_properties": Function(("fraction", "clk"), "mantissa", exp2_is_monotone),
    "crc32c_properties": Function(("before", "data", "clk"), "after", crc_word_is_512_bits, linear=True),
}


def judged(top: str, folder: Path) -> Finding:
    """What is found in the netlist that `commands` left in `folder`."""
    function = FUNCTIONS[top]
    return function.check(netlist.read(folder / "function.aig", function.inputs, function.output))


def commands(top: str, folder: Path) -> list[str]:
    """Yosys commands from a prepared module to function.aig."""
    (folder / "wires.v").write_text(WIRES)
    linear = FUNCTIONS[top].linear
    gates = "t:$_XOR_ t:$_XNOR_ t:$_NOT_"
    return [
        "techmap",
        "dfflegalize -cell $_DFF_P_ x -cell $_DFFE_PP_ x",
        "techmap -map wires.v",
        "opt -full",
        "techmap",
        "opt -fast",
        "check -assert",
        *([f"select -assert-none t:* {' '.join(f'{gate} %d' for gate in gates.split())}"] if linear else []),
        "aigmap",
        "opt_clean",
        "write_aiger -no-startoffset -map function.aim function.aig",
    ]
