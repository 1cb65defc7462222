# SPDX-License-Identifier: Apache-2.0
"""Evaluates a combinational AIGER file for many inputs at once: bit i of a word of a net is its value for input i."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]


@dataclass(frozen=True)
class Netlist:
    """Gate i is the AND of two literals; a literal is 2 * variable + inverted; inputs are variables 1 and up."""

    # variable of each input bit, in the order of the ports that were named, lowest bit first
    inputs: tuple[int, ...]
    gates: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]

    def evaluate(self, inputs: Bits) -> Bits:
        """[inputs, words] to [outputs, words]."""
        count = len(self.inputs)
        if inputs.shape[0] != count:
            raise ValueError(f"{inputs.shape[0]} inputs given, the netlist has {count}")
        values = np.empty((1 + count + len(self.gates), inputs.shape[1]), np.uint64)
        values[0] = 0
        values[list(self.inputs)] = inputs
        flip = np.uint64(0xFFFFFFFFFFFFFFFF)
        for row, (left, right) in enumerate(self.gates, count + 1):
            a, b = values[left >> 1], values[right >> 1]
            match left & 1, right & 1:
                case 0, 0:
                    np.bitwise_and(a, b, out=values[row])
                case 1, 1:
                    np.bitwise_or(a, b, out=values[row])
                    np.bitwise_not(values[row], out=values[row])
                case 1, 0:
                    np.bitwise_and(a, b, out=values[row])
                    np.bitwise_xor(values[row], b, out=values[row])
                case _:
                    np.bitwise_and(a, b, out=values[row])
                    np.bitwise_xor(values[row], a, out=values[row])
        return np.stack([values[literal >> 1] ^ (flip if literal & 1 else np.uint64(0)) for literal in self.outputs])


def read(path: Path, ports: Sequence[str], output: str) -> Netlist:
    """A binary AIGER file without latches, its inputs in the order of `ports`; the map of names lies beside it."""
    data = path.read_bytes()
    end = data.index(b"\n")
    header = data[:end].split()
    _, inputs, latches, outputs, gates = (int(field) for field in header[1:6])
    if header[0] != b"aig" or latches or any(int(field) for field in header[6:]):
        raise ValueError(f"{path}: {data[:end].decode()} is not a combinational netlist")
    at = end + 1
    literals = []
    for _ in range(outputs):
        end = data.index(b"\n", at)
        literals.append(int(data[at:end]))
        at = end + 1
    pairs = []
    for row in range(gates):
        deltas = []
        for _ in range(2):
            delta = shift = 0
            while data[at] & 0x80:
                delta |= (data[at] & 0x7F) << shift
                shift += 7
                at += 1
            deltas.append(delta | data[at] << shift)
            at += 1
        left = 2 * (inputs + 1 + row) - deltas[0]
        pairs.append((left, left - deltas[1]))
    places: dict[tuple[str, str, int], int] = {}
    for line in path.with_suffix(".aim").read_text().splitlines():
        kind, index, bit, name = line.split()
        places[kind, name, int(bit)] = int(index)
    order = [place + 1 for port in ports for place in port_places(places, "input", port)]
    if sorted(order) != list(range(1, inputs + 1)):
        raise ValueError(f"{path}: ports {', '.join(ports)} are not its {inputs} inputs")
    # The map leaves out bits that are constant.
    named = {bit: literals[place] for (kind, name, bit), place in places.items() if (kind, name) == ("output", output)}
    unnamed = set(literals) - set(named.values()) if len(named) < outputs else set()
    if not named or len(unnamed) > 1 or not unnamed <= {0, 1}:
        raise ValueError(f"{path}: {output} is not its only output, or has constant bits that cannot be told apart")
    return Netlist(tuple(order), tuple(pairs), tuple(named.get(bit, min(unnamed, default=0)) for bit in range(outputs)))


def port_places(places: dict[tuple[str, str, int], int], kind: str, port: str) -> list[int]:
    """Positions of a port's bits in the file, lowest bit first."""
    return [place for (_, _, _), place in sorted(item for item in places.items() if item[0][:2] == (kind, port))]


def bits_of(values: NDArray[np.uint64], width: int) -> Bits:
    """[n] numbers to [width, n / 64]: row b holds bit b of each. n is a multiple of 64."""
    rows = [
        np.packbits((values >> np.uint64(b) & np.uint64(1)).astype(np.uint8), bitorder="little") for b in range(width)
    ]
    return np.stack(rows).view(np.uint64)


def numbers_of(bits: Bits) -> NDArray[np.uint64]:
    """The inverse of bits_of, up to 64 bits."""
    numbers = np.zeros(bits.shape[1] * 64, np.uint64)
    for b, row in enumerate(bits):
        numbers |= np.unpackbits(row.view(np.uint8), bitorder="little").astype(np.uint64) << np.uint64(b)
    return numbers
