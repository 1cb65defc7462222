# SPDX-License-Identifier: Apache-2.0
"""A module as Yosys mapped it: resources, the modules it instantiates, and the ways of its signals. Runs no tool.

Nets are numbers inside one module; `None` is a constant.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.rtl.cells import Resources, Timing, resources, timing

Nets = tuple[int | None, ...]


@dataclass(frozen=True, order=True)
class Variant:
    """A module with values for its parameters."""

    module: str
    values: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return " ".join((self.module, *(f"{name}={value}" for name, value in self.values)))


@dataclass(frozen=True)
class Port:
    """A port of a module: bit i is net nets[i]."""

    is_input: bool
    nets: Nets


@dataclass(frozen=True)
class Child:
    """An instance of another module of the design."""

    name: str
    variant: Variant
    ports: dict[str, Port]


@dataclass(frozen=True)
class Netlist:
    """A mapped module without what lies inside its instances."""

    nets: int
    resources: Resources
    ports: dict[str, Port]
    children: tuple[Child, ...]
    # [steps][source, target, levels, CARRY4s]
    steps: NDArray[np.int64]
    # nets that a register or a memory drives; nets that end in one, and what it is called
    starts: tuple[int, ...]
    ends: dict[int, str]
    # what a net is called in the source, where it has a name
    names: dict[int, str]


def read(text: str, top: str, instantiated: Collection[str]) -> Netlist:
    """The module `top` of Yosys's JSON; a cell is one of the part or one of the modules that are named as instantiated.

    Raises ValueError for any other cell.
    """
    modules = json.loads(text)["modules"]
    module = modules[top]
    names = _names(module["netnames"])
    taken = Resources()
    children = []
    ways: list[Timing] = []
    ends: dict[int, str] = {}
    for name, cell in module["cells"].items():
        kind = cell["type"]
        if kind in instantiated:
            children.append(_child(name, cell, modules[kind]))
            continue
        try:
            taken += resources(kind)
            outputs = _pins(cell, "output")
            ways.append(timing(kind, _pins(cell, "input"), outputs, cell["parameters"]))
        except ValueError as error:
            raise ValueError(f"{top}: {name}: {error}") from None
        called = next((names[net] for nets in outputs.values() for net in nets if net in names), name)
        ends.update((net, called) for net in ways[-1].ends if net not in ends)
    steps = {(s.source, s.target, s.levels, s.carries) for way in ways for s in way.steps}
    bits = [bit for net in module["netnames"].values() for bit in net["bits"] if isinstance(bit, int)]
    return Netlist(
        nets=1 + max(bits, default=0),
        resources=taken,
        ports={name: Port(port["direction"] == "input", _nets(port["bits"])) for name, port in module["ports"].items()},
        children=tuple(children),
        steps=np.array(sorted(steps), np.int64).reshape(-1, 4),
        starts=tuple(sorted({net for way in ways for net in way.starts})),
        ends=ends,
        names=names,
    )


# What json reads; it has no types.
_Json = Any


def _child(name: str, cell: _Json, module: _Json) -> Child:
    texts = module.get("parameter_default_values", {}) | cell["parameters"]
    values = {key: int(text, 2) for key, text in texts.items()}
    ports = {
        pin: Port(cell["port_directions"][pin] == "input", _nets(bits)) for pin, bits in cell["connections"].items()
    }
    return Child(name, Variant(cell["type"], tuple(sorted(values.items()))), ports)


def _pins(cell: _Json, direction: str) -> dict[str, Nets]:
    directions = cell["port_directions"]
    return {pin: _nets(bits) for pin, bits in cell["connections"].items() if directions[pin] == direction}


def _nets(bits: list[int | str]) -> Nets:
    return tuple(bit if isinstance(bit, int) else None for bit in bits)


def _names(netnames: _Json) -> dict[int, str]:
    """The name of each net that the source gives one: a register's before a wire's, then the shortest."""
    ranked = sorted(netnames.items(), key=lambda item: (not item[0].endswith("_reg"), len(item[0]), item[0]))
    names: dict[int, str] = {}
    for name, net in ranked:
        for index, bit in enumerate(() if net["hide_name"] else net["bits"]):
            if isinstance(bit, int):
                names.setdefault(bit, f"{name}[{index}]" if len(net["bits"]) > 1 else name)
    return names
