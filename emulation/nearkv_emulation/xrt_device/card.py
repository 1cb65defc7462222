# SPDX-License-Identifier: Apache-2.0
"""The emulated card that an xclbin describes: its memory and its compute units at their addresses. No messages here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from nearkv_driver.xclbin import Bank, Design, Kernel, SectionKind, XclbinError, read_container
from nearkv_driver.xclbin import Unit as DesignUnit
from nearkv_driver.xclbin.kernel import CONTROL
from nearkv_driver.xclbin.tables import read_connections

from nearkv_emulation.xrt_device.memory import DeviceMemory
from nearkv_emulation.xrt_device.model import KernelModel, Memory, MemoryFault, ModelMaker, UnitPlace
from nearkv_emulation.xrt_device.p2p_files import P2pFiles

_NO_REGISTERS = 0xFFFFFFFFFFFFFFFF  # the base of a unit that only streams
_WINDOW = 0x10000  # of a unit whose kernel does not say how large its register file is
# How long a unit works while a register of it is read: the host polls, and its other calls wait so long at most.
POLL_S = 0.005


class UnitFailed(Exception):
    """The model of a unit raised something."""


@dataclass(frozen=True)
class Placed:
    """A unit with its kernel, and for each pointer argument the banks that it is linked to."""

    unit: DesignUnit
    kernel: Kernel
    banks: Mapping[str, Sequence[Bank]]


@dataclass(frozen=True)
class Plan:
    """An xclbin as the card needs it. IPs that the metadata does not describe are the platform's own: left out."""

    file: str
    design: Design
    units: tuple[Placed, ...]

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Raises XclbinError."""
        container = read_container(path)
        design = Design.of(container, str(path))
        section = container.section(SectionKind.CONNECTIVITY)
        links = read_connections(section, str(path), len(design.units), len(design.banks)) if section else ()
        kernels = {kernel.name: kernel for kernel in design.kernels}
        units = []
        for number, unit in enumerate(design.units):
            kernel = kernels.get(unit.kernel)
            if kernel is None or unit.base == _NO_REGISTERS:
                continue
            banks = {
                a.name: [design.banks[link.bank] for link in links if (link.unit, link.argument) == (number, a.index)]
                for a in kernel.arguments
                if a.pointer
            }
            units.append(Placed(unit, kernel, banks))
        if not units:
            raise XclbinError(
                "it has no compute unit that its metadata describes", file=str(path), section=SectionKind.IP_LAYOUT.name
            )
        return cls(str(path), design, tuple(units))

    def require_models(self, makers: Mapping[str, ModelMaker]) -> None:
        """ValueError for a unit that nothing can stand behind."""
        for placed in self.units:
            name = placed.kernel.name
            if name not in makers:
                raise ValueError(
                    f"{self.file} has kernel {name!r}, for which there is no model; give --model {name}=MODULE:FUNCTION"
                )


@dataclass
class Unit:
    """A unit on the bus; counts its starts."""

    name: str
    base: int
    nbytes: int
    model: KernelModel
    starts: int = field(default=0)


class EmulatedBoard:
    """Memory and units of one opened device. A context manager."""

    def __init__(
        self, plan: Plan, makers: Mapping[str, ModelMaker], files: P2pFiles, host: Memory | None = None
    ) -> None:
        with ExitStack() as stack:
            plan.require_models(makers)
            self.memory = DeviceMemory(plan.design.banks, files, host)
            stack.callback(self.memory.close)
            self.units: list[Unit] = []
            for placed in plan.units:
                unit, kernel = placed.unit, placed.kernel
                regions = {name: self.memory.regions(banks) for name, banks in placed.banks.items()}
                model = makers[kernel.name](UnitPlace(unit.name, unit.base, kernel, regions, self.memory))
                stack.callback(model.close)
                self.units.append(Unit(unit.name, unit.base, _window(kernel), model))
            self._stack = stack.pop_all()

    def __enter__(self) -> EmulatedBoard:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def busy(self) -> bool:
        return any(unit.model.busy for unit in self.units)

    def advance(self, wall_s: float) -> None:
        """Lets all units that have work go on, for about so long each."""
        for unit in self.units:
            if unit.model.busy:
                with _naming(unit):
                    unit.model.advance(wall_s)

    def write_registers(self, address: int, data: memoryview) -> None:
        for unit, offset, at in self._words(address, len(data)):
            value = int.from_bytes(data[at : at + 4], "little")
            unit.starts += offset == 0 and bool(value & 1)
            with _naming(unit):
                unit.model.write32(offset, value)

    def read_registers(self, address: int, nbytes: int) -> bytes:
        out = bytearray()
        for unit, offset, _ in self._words(address, nbytes):
            with _naming(unit):
                if unit.model.busy:
                    unit.model.advance(POLL_S)
                out += unit.model.read32(offset).to_bytes(4, "little")
        return bytes(out)

    def _words(self, address: int, nbytes: int) -> Iterator[tuple[Unit, int, int]]:
        """Unit, offset in its window and offset in the data of each word."""
        unit = next((u for u in self.units if u.base <= address < u.base + u.nbytes), None)
        if unit is None or address + nbytes > unit.base + unit.nbytes:
            windows = ", ".join(f"{u.name} at {u.base:#x} to {u.base + u.nbytes:#x}" for u in self.units)
            raise MemoryFault(f"{nbytes} bytes of registers at {address:#x}; there are {windows}")
        if address % 4 or nbytes % 4:
            raise MemoryFault(f"{nbytes} bytes of registers at {address:#x}; words of 4 bytes are expected")
        for at in range(0, nbytes, 4):
            yield unit, address - unit.base + at, at


@contextmanager
def _naming(unit: Unit) -> Iterator[None]:
    """Whatever a model raises, and it may be anybody's, is trouble of its unit."""
    try:
        yield
    except Exception as error:
        raise UnitFailed(f"unit {unit.name}: {type(error).__name__}: {error}") from error


def _window(kernel: Kernel) -> int:
    ports = [p.range_nbytes for p in kernel.ports if p.mode == "slave"]
    named = [p.range_nbytes for p in kernel.ports if p.name.lower() == CONTROL]
    return next(iter(named or ports), _WINDOW)
