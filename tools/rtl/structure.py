# SPDX-License-Identifier: Apache-2.0
"""Rules of fpga/rtl that pyverilog can check: how modules are kept in files and how they are connected.

Each finding is one sentence that names the file, the thing and both values. Knows no register and no HLS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tools.rtl.elaborate import Instance, parameters, port_bits, tree
from tools.rtl.expressions import bits
from tools.rtl.verilog import Module


def findings(modules: Iterable[Module], top: str) -> list[str]:
    """What is wrong in a set of modules under `top`, in a stable order."""
    found = list(modules)
    problems = list(_files(found))
    by_name = {module.name: module for module in found}
    if top not in by_name:
        return [*problems, f"no file defines the top module {top}"]
    used, wrong = _walk(by_name, top)
    problems += wrong
    problems += [
        f"{module.path.name}: module {name} is instantiated nowhere under {top}"
        for name, module in by_name.items()
        if name not in used
    ]
    return list(dict.fromkeys(problems))


def _files(modules: list[Module]) -> Iterator[str]:
    per_file: dict[str, list[str]] = {}
    for module in modules:
        per_file.setdefault(module.path.name, []).append(module.name)
    for file, names in per_file.items():
        if names != [file.removesuffix(".v")]:
            yield f"{file}: defines {', '.join(names)}; a file holds the one module of its name"


def _walk(by_name: dict[str, Module], top: str) -> tuple[set[str], list[str]]:
    problems: list[str] = []
    used = {top}
    for module, instance in tree(by_name, top):
        used.add(instance.module)
        child = by_name.get(instance.module)
        where = f"{module.path.name}: instance {instance.name}"
        if child is None:
            problems.append(f"{where}: no file defines its module {instance.module}")
        else:
            problems += [f"{where} of {child.name}: {text}" for text in _connections(instance, child)]
    return used, problems


def _connections(instance: Instance, child: Module) -> Iterator[str]:
    if instance.by_order:
        yield "ports are connected by order; connect them by name"
        return
    for name in instance.parameters:
        if name not in child.parameters:
            yield f"parameter {name} does not exist; {child.name} has {', '.join(child.parameters) or 'none'}"
    for name in instance.connections:
        if name not in child.ports:
            yield f"port {name} does not exist; {child.name} has {', '.join(child.ports)}"
    widths = port_bits(child, parameters(child, instance.parameters))
    for name, port in child.ports.items():
        expression = instance.connections.get(name)
        if expression is None:
            if port.direction == "input":
                yield f"input {name} is not connected"
            elif name not in instance.connections:
                yield f"output {name} is not mentioned; write .{name}() to leave it open"
            continue
        given = bits(expression, instance.scope)
        if given is not None and widths[name] is not None and given != widths[name]:
            yield f"port {name} has {widths[name]} bits, what is connected has {given}"
