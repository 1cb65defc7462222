# SPDX-License-Identifier: Apache-2.0
"""The seam behind the device process: what a compute unit and its memory look like. Definitions only.

A `KernelModel` is one unit with its registers; a `ModelMaker` makes it from the xclbin's description. Anything fits: a
function on memory (`function_unit`), a Verilated kernel (`rtl_unit`), a kernel of somebody else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nearkv_driver.xclbin import Kernel

from nearkv_emulation.kernel import Region


class Memory(Protocol):
    """Device memory by address; a range that leaves a bank raises MemoryFault."""

    def read(self, address: int, nbytes: int) -> bytes: ...

    def write(self, address: int, data: bytes | memoryview) -> None: ...


class MemoryFault(Exception):
    """An access to an address at which there is no memory."""


@dataclass(frozen=True)
class UnitPlace:
    """One compute unit of the xclbin.

    regions: for each pointer argument the banks that it is linked to, whole and writable; host memory is not among
    them. memory: all banks and, where the design has such a bank, memory of the host.
    """

    name: str
    base: int
    kernel: Kernel
    regions: Mapping[str, Sequence[Region]]
    memory: Memory


class KernelModel(Protocol):
    """A compute unit. Offsets are bytes from the unit's base, multiples of 4, inside its register window."""

    def read32(self, offset: int) -> int: ...

    def write32(self, offset: int, value: int) -> None: ...

    @property
    def busy(self) -> bool:
        """Whether time makes a difference: something has been started and has not ended."""
        ...

    def advance(self, wall_s: float) -> None:
        """Lets the unit work for about so long at most, less if it ends. Raises what went wrong in the kernel."""
        ...

    def close(self) -> None:
        """Ends what runs; the unit is not used again."""
        ...


class ModelMaker(Protocol):
    """What `--model` names: makes the model of one unit. ValueError where it does not fit the unit."""

    def __call__(self, place: UnitPlace, /) -> KernelModel: ...
