# SPDX-License-Identifier: Apache-2.0
"""Values and widths of Verilog expressions, as far as constants decide them. None stands for: not known here."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tools.rtl.verilog import Node

_BINARY: dict[str, Callable[[int, int], int]] = {
    "Plus": operator.add,
    "Minus": operator.sub,
    "Times": operator.mul,
    "Divide": operator.floordiv,
    "Mod": operator.mod,
    "Power": operator.pow,
    "Sll": operator.lshift,
    "Srl": operator.rshift,
    "Sra": operator.rshift,
    "And": operator.and_,
    "Or": operator.or_,
    "Xor": operator.xor,
    "Eq": lambda a, b: int(a == b),
    "NotEq": lambda a, b: int(a != b),
    "LessThan": lambda a, b: int(a < b),
    "LessEq": lambda a, b: int(a <= b),
    "GreaterThan": lambda a, b: int(a > b),
    "GreaterEq": lambda a, b: int(a >= b),
    "Land": lambda a, b: int(bool(a) and bool(b)),
    "Lor": lambda a, b: int(bool(a) or bool(b)),
}
_ONE_BIT = {"Eq", "NotEq", "Eql", "NotEql", "LessThan", "LessEq", "GreaterThan", "GreaterEq", "Land", "Lor", "Ulnot"}
_ONE_BIT |= {"Uand", "Uor", "Uxor", "Unand", "Unor", "Uxnor"}
_WIDEST = {"Plus", "Minus", "Times", "Divide", "Mod", "And", "Or", "Xor", "Xnor"}
_SHIFTS = {"Sll", "Srl", "Sra"}
_OF_RIGHT = {"Unot", "Uminus", "Uplus"}


@dataclass
class Scope:
    """What names mean at one place: constants by value, nets and memories by width."""

    values: dict[str, int] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)
    memories: set[str] = field(default_factory=set)

    def inner(self) -> Scope:
        """A scope that starts as this one."""
        return Scope(dict(self.values), dict(self.widths), set(self.memories))


def literal(text: str) -> tuple[int | None, int | None]:
    """(value, width) of a number as Verilog writes it; the width of a plain number is None, as it adapts."""
    text = text.replace("_", "")
    if "'" not in text:
        return int(text), None
    size, rest = text.split("'", 1)
    rest = rest.lower().removeprefix("s")
    base = {"h": 16, "d": 10, "b": 2, "o": 8}[rest[0]]
    try:
        value = int(rest[1:], base)
    except ValueError:  # x, z, ?
        return None, int(size) if size else None
    return value, int(size) if size else None


def value(node: Node, values: Mapping[str, int]) -> int | None:
    """What an expression of constants is, or None."""
    kind = type(node).__name__
    if kind in ("Rvalue", "Lvalue"):
        return value(node.var, values)
    if kind == "IntConst":
        return literal(node.value)[0]
    if kind == "Identifier":
        return values.get(node.name)
    if kind == "Cond":
        condition = value(node.cond, values)
        return None if condition is None else value(node.true_value if condition else node.false_value, values)
    if kind == "SystemCall" and node.syscall == "clog2":
        argument = value(node.args[0], values)
        return None if argument is None else max(argument - 1, 0).bit_length()
    if kind == "Partselect":
        word, high, low = (value(part, values) for part in (node.var, node.msb, node.lsb))
        if word is None or high is None or low is None:
            return None
        return (word >> low) & ((1 << (high - low + 1)) - 1)
    if kind in ("Uminus", "Uplus", "Ulnot"):
        right = value(node.right, values)
        if right is None:
            return None
        return {"Uminus": -right, "Uplus": right, "Ulnot": int(not right)}[kind]
    if kind in _BINARY:
        a, b = value(node.left, values), value(node.right, values)
        return None if a is None or b is None else _BINARY[kind](a, b)
    return None


def range_bits(width: Node, values: Mapping[str, int]) -> int | None:
    """Bits of a declared range; no range is one bit."""
    if width is None:
        return 1
    high, low = value(width.msb, values), value(width.lsb, values)
    return None if high is None or low is None else abs(high - low) + 1


def bits(node: Node, scope: Scope) -> int | None:
    """Self-determined width of an expression, or None where it adapts or is not known."""
    kind = type(node).__name__
    if kind in _ONE_BIT:
        return 1
    if kind in ("Rvalue", "Lvalue"):
        return bits(node.var, scope)
    if kind == "IntConst":
        return literal(node.value)[1]
    if kind == "Identifier":
        return None if node.scope is not None else scope.widths.get(node.name)
    if kind == "Pointer":
        return scope.widths.get(node.var.name) if getattr(node.var, "name", None) in scope.memories else 1
    if kind == "Partselect":
        # pyverilog gives [base +: n] as base and base + n, with base as one node in both places
        if getattr(node.lsb, "left", None) is node.msb:
            return value(node.lsb.right, scope.values)
        high, low = value(node.msb, scope.values), value(node.lsb, scope.values)
        return None if high is None or low is None else abs(high - low) + 1
    if kind in ("Concat", "LConcat"):
        return _total([bits(part, scope) for part in node.list])
    if kind == "Repeat":
        times, each = value(node.times, scope.values), bits(node.value, scope)
        return None if times is None or each is None else times * each
    if kind == "Cond":
        return _widest([bits(node.true_value, scope), bits(node.false_value, scope)])
    if kind == "SystemCall" and node.syscall in ("signed", "unsigned"):
        return bits(node.args[0], scope)
    if kind in _WIDEST:
        return _widest([bits(node.left, scope), bits(node.right, scope)])
    if kind in _SHIFTS:
        return bits(node.left, scope)
    if kind in _OF_RIGHT:
        return bits(node.right, scope)
    return None


def _total(parts: list[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _widest(parts: list[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return max(known) if len(known) == len(parts) else None
