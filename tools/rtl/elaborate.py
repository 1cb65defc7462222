# SPDX-License-Identifier: Apache-2.0
"""Instances of a module once its parameters have values: generate loops unrolled, generate conditions decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tools.rtl.expressions import Scope, range_bits, value
from tools.rtl.verilog import Module, Node

# A loop that runs longer than this is taken for one that does not end.
_LOOP_MAX = 4096


@dataclass(frozen=True)
class Instance:
    """One instance: what it instantiates, its parameters by value, its connections and the scope they are read in."""

    module: str
    name: str
    parameters: dict[str, int | None]
    connections: dict[str, Node]
    by_order: bool
    scope: Scope


def parameters(module: Module, given: Mapping[str, int | None]) -> dict[str, int]:
    """Values of a module's parameters; a given one that is None is left out."""
    found: dict[str, int] = {}
    for name, default in module.parameters.items():
        number = given[name] if name in given else value(default, found)
        if number is not None:
            found[name] = number
    return found


def port_bits(module: Module, values: Mapping[str, int]) -> dict[str, int | None]:
    """Widths of a module's ports."""
    return {name: range_bits(port.width, values) for name, port in module.ports.items()}


def instances(module: Module, given: Mapping[str, int | None] | None = None) -> list[Instance]:
    """What a module instantiates, in the order of its text."""
    scope = Scope(values=parameters(module, given or {}))
    scope.widths = {name: width for name, width in port_bits(module, scope.values).items() if width is not None}
    return list(_items(module.items, scope, module.name))


def tree(modules: Mapping[str, Module], top: str) -> Iterator[tuple[Module, Instance]]:
    """(module, instance in it) of everything under `top`; each module once per set of parameter values."""
    seen: set[tuple[str, tuple[tuple[str, int], ...]]] = set()
    left = [(top, tuple(parameters(modules[top], {}).items()))]
    while left:
        key = left.pop(0)
        if key in seen:
            continue
        seen.add(key)
        for instance in instances(modules[key[0]], dict(key[1])):
            yield modules[key[0]], instance
            if instance.module in modules:
                values = parameters(modules[instance.module], instance.parameters)
                left.append((instance.module, tuple(values.items())))


def _items(items: Iterable[Node], scope: Scope, where: str) -> Iterator[Instance]:
    for item in items:
        kind = type(item).__name__
        if kind == "Decl":
            for declared in item.list:
                _declare(declared, scope)
        elif kind == "GenerateStatement":
            yield from _items(item.items, scope, where)
        elif kind == "Block":
            yield from _items(item.statements, scope.inner(), where)
        elif kind == "ForStatement":
            yield from _loop(item, scope, where)
        elif kind == "IfStatement":
            yield from _branch(item, scope, where)
        elif kind == "InstanceList":
            for instance in item.instances:
                yield _instance(instance, scope)


def _declare(node: Node, scope: Scope) -> None:
    kind = type(node).__name__
    if kind in ("Localparam", "Parameter"):
        number = value(node.value, scope.values)
        if number is not None:
            scope.values[node.name] = number
    elif kind in ("Wire", "Reg"):
        width = range_bits(node.width, scope.values)
        scope.widths.pop(node.name, None)
        if width is not None:
            scope.widths[node.name] = width
        if node.dimensions is not None:
            scope.memories.add(node.name)


def _loop(node: Node, scope: Scope, where: str) -> Iterator[Instance]:
    name = node.pre.left.var.name
    turn = scope.inner()
    number = value(node.pre.right, turn.values)
    for _ in range(_LOOP_MAX):
        if number is None:
            raise ValueError(f"{where}: the bounds of a generate loop over {name} are no constants")
        turn.values[name] = number
        if not value(node.cond, turn.values):
            return
        yield from _items([node.statement], turn, where)
        number = value(node.post.right, turn.values)
    raise ValueError(f"{where}: a generate loop over {name} has not ended after {_LOOP_MAX} turns")


def _branch(node: Node, scope: Scope, where: str) -> Iterator[Instance]:
    chosen = value(node.cond, scope.values)
    if chosen is None:
        raise ValueError(f"{where}: the condition of a generate if is no constant")
    statement = node.true_statement if chosen else node.false_statement
    if statement is not None:
        yield from _items([statement], scope, where)


def _instance(node: Node, scope: Scope) -> Instance:
    return Instance(
        module=node.module,
        name=node.name,
        parameters={argument.paramname: value(argument.argname, scope.values) for argument in node.parameterlist},
        connections={argument.portname: argument.argname for argument in node.portlist},
        by_order=any(argument.portname is None for argument in node.portlist),
        scope=scope.inner(),
    )
