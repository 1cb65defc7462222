# SPDX-License-Identifier: Apache-2.0
"""Every output of every module has a driver somewhere in the module: an assignment, a register or an instance.

Names are followed, not bits: that all bits of a net are driven is Verilator's to say (UNDRIVEN). pyverilog's own
dataflow analysis is not used: it refuses outputs that are connected to a concatenation, as in axi_read_stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tools.rtl.verilog import Module, Node, walk

_ASSIGNMENTS = {"Assign", "BlockingSubstitution", "NonblockingSubstitution"}


def findings(modules: Iterable[Module]) -> list[str]:
    """Outputs without a driver."""
    found = {module.name: module for module in modules}
    problems = []
    for module in found.values():
        driven = _driven(module, found)
        problems += [
            f"{module.path.name}: output {name} of {module.name} has no driver"
            for name, port in module.ports.items()
            if port.direction == "output" and name not in driven
        ]
    return problems


def _driven(module: Module, modules: Mapping[str, Module]) -> set[str]:
    """Names that something in a module drives."""
    driven: set[str] = set()
    for item in module.items:
        for node in walk(item):
            kind = type(node).__name__
            if kind in _ASSIGNMENTS:
                driven |= _targets(node.left)
            elif kind == "Instance" and node.module in modules:
                ports = modules[node.module].ports
                for argument in node.portlist:
                    port = ports.get(argument.portname)
                    if port is not None and port.direction != "input" and argument.argname is not None:
                        driven |= _targets(argument.argname)
    return driven


def _targets(node: Node) -> set[str]:
    """Names of an assignment's left side, without those of its indices."""
    kind = type(node).__name__
    if kind == "Identifier":
        return {node.name}
    if kind in ("Pointer", "Partselect", "Lvalue"):
        return _targets(node.var)
    if kind in ("LConcat", "Concat"):
        return set().union(*(_targets(part) for part in node.list))
    return set()
