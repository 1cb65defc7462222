# SPDX-License-Identifier: Apache-2.0
"""Longest ways of signals between registers, in levels of logic: of one module alone, and through the whole design.

What a level is says `cells`. Structure only: no delays, no routing, and no path is taken for a false one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.rtl.netlist import Netlist, Port, Variant

Numbers = NDArray[np.int64]

# A path is as long as its levels, then its carry cells: both in one number.
_LEVEL = 1 << 20


@dataclass(frozen=True, order=True)
class Depth:
    """Length of a path: levels of logic, and the CARRY4s (4 bits of a carry chain) that it passes."""

    levels: int = 0
    carries: int = 0


@dataclass(frozen=True)
class Route:
    """A path from a register, memory or port to another: by instance and name, and where it is after how much."""

    depth: Depth
    source: str
    target: str
    stops: tuple[tuple[Depth, str], ...]


class CombinationalLoop(ValueError):
    """Logic that feeds itself without a register has no depth."""


def alone(netlist: Netlist) -> Depth:
    """Longest path of one module; its ports and its instances are taken for registers."""
    starts, ends = list(netlist.starts), list(netlist.ends)
    for port in netlist.ports.values():
        (starts if port.is_input else ends).extend(_known(port))
    for child in netlist.children:
        for port in child.ports.values():
            (ends if port.is_input else starts).extend(_known(port))
    arrivals = _arrivals(netlist.nets, netlist.steps, np.array(starts, np.int64))
    return _depth(arrivals[ends].max(initial=0))


def through(netlists: Mapping[Variant, Netlist], top: Variant) -> dict[str, Route]:
    """The longest path that ends in a register or memory of each module, or in a port of the top."""
    return _Flat(netlists, top).routes()


@dataclass(frozen=True)
class _Instance:
    path: str
    variant: Variant
    # number in the whole design of each of its nets
    numbers: Numbers


@dataclass(frozen=True)
class _End:
    module: str
    name: str
    net: int
    # of the longest path to it; -1 when no path leads there
    length: int


class _Flat:
    """The design without borders between modules."""

    def __init__(self, netlists: Mapping[Variant, Netlist], top: Variant) -> None:
        self._netlists = netlists
        self._count = 0
        self._instances: list[_Instance] = []
        self._parts: list[Numbers] = []
        self._starts: list[Numbers] = []
        self._top = self._add(top, "", {})
        steps = np.concatenate(self._parts)
        inputs = [net for port in netlists[top].ports.values() if port.is_input for net in _known(port)]
        starts = np.concatenate([*self._starts, self._top.numbers[inputs]])
        self._arrivals = _arrivals(self._count, steps, starts)
        self._back = steps[np.argsort(steps[:, 1], kind="stable")]
        self._names = self._named()

    def routes(self) -> dict[str, Route]:
        """Of each module, the longest."""
        longest: dict[str, _End] = {}
        for end in self._ends():
            if end.length >= 0 and (end.module not in longest or end.length > longest[end.module].length):
                longest[end.module] = end
        return {module: self._route(end) for module, end in sorted(longest.items())}

    def _ends(self) -> Iterator[_End]:
        for instance in self._instances:
            for net, name in self._netlists[instance.variant].ends.items():
                yield self._end(instance, net, name)
        for name, port in self._netlists[self._top.variant].ports.items():
            if not port.is_input:
                for net in _known(port):
                    yield self._end(self._top, net, name)

    def _end(self, instance: _Instance, net: int, name: str) -> _End:
        number = int(instance.numbers[net])
        return _End(instance.variant.module, _joined(instance.path, name), number, int(self._arrivals[number]))

    def _add(self, variant: Variant, path: str, outside: Mapping[str, Port]) -> _Instance:
        """`outside`: the nets of the whole design at the ports."""
        netlist = self._netlists[variant]
        numbers = np.arange(self._count, self._count + netlist.nets)
        self._count += netlist.nets
        joined: list[tuple[int, int, int, int]] = []
        bound: set[int] = set()
        for is_input in (True, False):
            for inner, outer in _pairs(netlist, outside, is_input):
                if inner not in bound:
                    bound.add(inner)
                    numbers[inner] = outer
                elif numbers[inner] != outer:
                    # an input that is an output, too, or an output with two names
                    joined.append((int(numbers[inner]), outer, 0, 0))
        steps = netlist.steps.copy()
        steps[:, :2] = numbers[steps[:, :2]]
        self._parts += [steps, np.array(joined, np.int64).reshape(-1, 4)]
        self._starts.append(numbers[list(netlist.starts)])
        instance = _Instance(path, variant, numbers)
        self._instances.append(instance)
        for child in netlist.children:
            ports = {name: Port(port.is_input, _mapped(port, numbers)) for name, port in child.ports.items()}
            self._add(child.variant, _joined(path, child.name), ports)
        return instance

    def _route(self, end: _End) -> Route:
        nets = [end.net]
        while True:
            net = nets[-1]
            low, high = np.searchsorted(self._back[:, 1], (net, net + 1))
            steps = self._back[low:high]
            lengths = self._arrivals[steps[:, 0]]
            fits = steps[(lengths >= 0) & (lengths + _weights(steps) == self._arrivals[net])]
            if not len(fits):
                break
            nets.append(int(fits[0, 0]))
        nets.reverse()
        names = [self._names.get(net, f"net {net}") for net in nets]
        stops = tuple((_depth(self._arrivals[net]), name) for net, name in zip(nets, names, strict=True))
        return Route(_depth(end.length), names[0], end.name, stops)

    def _named(self) -> dict[int, str]:
        """What a net is called where a register drives it, or else in the innermost module that names it."""
        names: dict[int, str] = {}
        driven: dict[int, str] = {}
        for instance in self._instances:
            netlist = self._netlists[instance.variant]
            for net, name in netlist.names.items():
                names[int(instance.numbers[net])] = _joined(instance.path, name)
            for net in netlist.starts:
                if net in netlist.names:
                    driven[int(instance.numbers[net])] = _joined(instance.path, netlist.names[net])
        return names | driven


def _pairs(netlist: Netlist, outside: Mapping[str, Port], is_input: bool) -> Iterator[tuple[int, int]]:
    for name, port in outside.items():
        if port.is_input == is_input:
            for inner, outer in zip(netlist.ports[name].nets, port.nets, strict=True):
                if inner is not None and outer is not None:
                    yield inner, outer


def _mapped(port: Port, numbers: Numbers) -> tuple[int | None, ...]:
    return tuple(None if net is None else int(numbers[net]) for net in port.nets)


def _known(port: Port) -> list[int]:
    return [net for net in port.nets if net is not None]


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _weights(steps: Numbers) -> Numbers:
    return steps[:, 2] * _LEVEL + steps[:, 3]


def _depth(length: int | np.int64) -> Depth:
    return Depth(int(length) // _LEVEL, int(length) % _LEVEL)


def _arrivals(count: int, steps: Numbers, starts: Numbers) -> Numbers:
    """Length of the longest path from a start to each net; -1 where none leads. Raises CombinationalLoop."""
    steps = steps[np.argsort(steps[:, 0], kind="stable")]
    sources, targets, weights = steps[:, 0], steps[:, 1], _weights(steps)
    first = np.searchsorted(sources, np.arange(count + 1))
    missing = np.bincount(targets, minlength=count)
    arrivals = np.full(count, -1, np.int64)
    arrivals[starts] = 0
    ready = np.flatnonzero(missing == 0)
    while len(ready):
        counts = first[ready + 1] - first[ready]
        edges = np.repeat(first[ready] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        reached = edges[arrivals[sources[edges]] >= 0]
        np.maximum.at(arrivals, targets[reached], arrivals[sources[reached]] + weights[reached])
        np.subtract.at(missing, targets[edges], 1)
        ready = np.unique(targets[edges])
        ready = ready[missing[ready] == 0]
    if (missing > 0).any():
        raise CombinationalLoop(f"{int((missing > 0).sum())} nets follow themselves without a register")
    return arrivals
