# SPDX-License-Identifier: Apache-2.0
"""What fpga/regmap.toml asks of a kernel's interface, read from that file, not from what is made of it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Register:
    """A register of s_axi_control: offset in bytes, width, bits of its fields."""

    name: str
    offset: int
    bits: int
    fields: dict[str, int]

    def offsets(self) -> list[int]:
        """Offsets of its 32-bit words."""
        return list(range(self.offset, self.offset + self.bits // 8, 4))


@dataclass(frozen=True)
class Contract:
    """Kernel name, parameters, registers by offset, masters by index."""

    file: str
    kernel: str
    parameters: dict[str, int]
    registers: tuple[Register, ...]
    masters: tuple[str, ...]

    def pointers(self) -> list[Register]:
        """Registers that are 64-bit pointers: the kernel's arguments, in order."""
        return [register for register in self.registers if register.bits == 64]

    def word_bits(self) -> int:
        """Width of a master's data."""
        return self.parameters["word_bytes"] * 8


def read(path: Path) -> Contract:
    """The contract of a register map."""
    with path.open("rb") as file:
        data = tomllib.load(file)
    registers = [
        Register(
            name=name,
            offset=entry["offset"],
            bits=entry.get("bits", 32),
            fields={field: spec["bit"] for field, spec in entry.get("fields", {}).items()},
        )
        for name, entry in data["registers"].items()
    ]
    return Contract(
        file=path.name,
        kernel=data["contract"]["kernel"],
        parameters={name: entry["value"] for name, entry in data["parameters"].items()},
        registers=tuple(sorted(registers, key=lambda register: register.offset)),
        masters=tuple(sorted(data["masters"], key=lambda name: int(data["masters"][name]["index"]))),
    )
