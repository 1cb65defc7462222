# SPDX-License-Identifier: Apache-2.0
"""Compares the register decode of `control_registers` with fpga/regmap.toml: offsets, halves of pointers, bits.

Reads the syntax tree after the preprocessor, so what `regmap.vh` says is part of what is compared.
"""

from __future__ import annotations

import ast as python_ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.rtl.contract import Contract
from tools.rtl.expressions import value
from tools.rtl.verilog import Module, Node, walk

MODULE = "control_registers"
# Registers that are one word wide and whose read value is a concatenation of its fields.
_STATE = "CTRL"
# Fields of CTRL that act when written with 1, and the state that they change.
_ACTIONS = {"START": "start_reg", "CONTINUE": "done_reg"}


def findings(module: Module, contract: Contract) -> list[str]:
    """What the decode does otherwise than the register map says."""
    file = module.path.name
    wanted = {offset: register.name for register in contract.registers for offset in register.offsets()}
    reads, writes = _reads(module), _writes(module)
    problems = list(_compare(file, "read", set(reads), wanted, contract))
    problems += _compare(file, "write", writes, wanted, contract)
    problems += _halves(file, reads, contract)
    problems += _fields(file, reads, contract)
    problems += _actions(file, module, contract)
    return problems


def host_findings(path: Path, contract: Contract) -> list[str]:
    """Offsets of the host's generated constants that are not the register map's."""
    found = {}
    for node in python_ast.parse(path.read_text()).body:
        if isinstance(node, python_ast.Assign) and isinstance(node.targets[0], python_ast.Name):
            name = node.targets[0].id
            if name.startswith("ADDR_"):
                found[name.removeprefix("ADDR_")] = int(python_ast.literal_eval(node.value))
    wanted = {register.name: register.offset for register in contract.registers}
    return [
        f"{path.name}: register {name} is at {_hex(found.get(name))}; {contract.file} has {_hex(wanted.get(name))}"
        for name in sorted(found.keys() | wanted.keys())
        if found.get(name) != wanted.get(name)
    ]


def _hex(number: int | None) -> str:
    return "no offset" if number is None else f"0x{number:02X}"


def _compare(file: str, what: str, found: set[int], wanted: dict[int, str], contract: Contract) -> Iterator[str]:
    missing, extra = sorted(wanted.keys() - found), sorted(found - wanted.keys())
    for offset in missing:
        where = f"{wanted[offset]} at {_hex(offset)} of {contract.file}"
        yield f"{file}: {what} of {where} is not decoded; decoded: {_list(found)}"
    for offset in extra:
        yield f"{file}: {what} at {_hex(offset)} is decoded; {contract.file} has {_list(wanted)}"


def _list(offsets: Iterable[int]) -> str:
    return ", ".join(map(_hex, sorted(offsets)))


def _assigned(node: Node) -> Node:
    """The value of the first assignment under a node."""
    return next((n.right.var for n in walk(node) if type(n).__name__.endswith("Substitution")), None)


def _reads(module: Module) -> dict[int, Node]:
    """{offset: value} of the case over `read_addr`."""
    found: dict[int, Node] = {}
    for case in _cases(module, "read_addr"):
        for label in case.cond or ():
            offset = value(label, {})
            if offset is not None:
                found[offset] = _assigned(case.statement)
    return found


def _writes(module: Module) -> set[int]:
    """Offsets of the case over `write_addr` and of comparisons with it."""
    offsets = {value(label, {}) for case in _cases(module, "write_addr") for label in case.cond or ()}
    for item in module.items:
        for node in walk(item):
            if type(node).__name__ == "Eq" and getattr(node.left, "name", None) == "write_addr":
                offsets.add(value(node.right, {}))
    return {offset for offset in offsets if offset is not None}


def _cases(module: Module, subject: str) -> Iterator[Node]:
    for item in module.items:
        for node in walk(item):
            if type(node).__name__ == "CaseStatement" and getattr(node.comp, "name", None) == subject:
                yield from node.caselist


def _halves(file: str, reads: dict[int, Node], contract: Contract) -> Iterator[str]:
    """A pointer's low word is at its offset, its high word behind it."""
    for register in contract.pointers():
        for index, offset in enumerate(register.offsets()):
            want = f"{register.name.lower()}_reg[{32 * index + 31}:{32 * index}]"
            found = _text(reads.get(offset))
            if offset in reads and found != want:
                yield f"{file}: a read at {_hex(offset)} gives {found}; {register.name} of {contract.file} wants {want}"


def _text(node: Node) -> str:
    """A name or part of one as Verilog writes it."""
    if type(node).__name__ == "Partselect":
        return f"{node.var.name}[{value(node.msb, {})}:{value(node.lsb, {})}]"
    return str(getattr(node, "name", type(node).__name__))


def _fields(file: str, reads: dict[int, Node], contract: Contract) -> Iterator[str]:
    """Each bit that CTRL shows is the field of that bit."""
    register = next(register for register in contract.registers if register.name == _STATE)
    node = reads.get(register.offset)
    if node is None or type(node).__name__ != "Concat":
        return
    names = {bit: name for name, bit in register.fields.items()}
    shown = [part for part in reversed(node.list) if type(part).__name__ == "Identifier"]
    for bit, part in enumerate(shown):
        found = part.name.removesuffix("_reg").upper()
        if found != names.get(bit):
            yield f"{file}: bit {bit} of {_STATE} is {found}; {contract.file} has {names.get(bit)}"


def _actions(file: str, module: Module, contract: Contract) -> Iterator[str]:
    """Writing 1 to START or CONTINUE acts on the bit that the register map names."""
    fields = next(register for register in contract.registers if register.name == _STATE).fields
    bits: dict[str, set[int | None]] = {target: set() for target in _ACTIONS.values()}
    for item in module.items:
        for node in walk(item):
            if type(node).__name__ != "IfStatement" or "write_ctrl" not in _names(node.cond):
                continue
            target = next((n.left.var.name for n in walk(node) if type(n).__name__ == "NonblockingSubstitution"), "")
            if target in bits:
                bits[target] |= {value(n.ptr, {}) for n in walk(node.cond) if type(n).__name__ == "Pointer"}
    for field, target in _ACTIONS.items():
        if bits[target] != {fields[field]}:
            found = ", ".join(map(str, bits[target])) or "none"
            want = f"{field} of {contract.file} is bit {fields[field]}"
            yield f"{file}: {target} listens to bit {found} of {_STATE}; {want}"


def _names(node: Node) -> set[str]:
    return {n.name for n in walk(node) if type(n).__name__ == "Identifier"}
