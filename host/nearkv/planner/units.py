# SPDX-License-Identifier: Apache-2.0
"""Quantities with units: text such as "3.0 GB/s" to a number in base units, and the reason when it is none.

Base units are bytes, seconds, FLOP, watts and US dollars. It judges one value at a time and knows no hardware.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nearkv.errors import UserError

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_TEXT = re.compile(r"\s*([-+]?[0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|[-+]?(?:nan|inf))\s*(\S*)\s*")


@dataclass(frozen=True)
class Kind:
    """What is measured: its units with their factors, and an example for messages."""

    name: str
    example: str
    units: Mapping[str, float]


SIZE = Kind("size", "4 GiB", {f"{p}B": f for p, f in (_DECIMAL | _BINARY).items()})
RATE = Kind("rate", "3.0 GB/s", {f"{p}B/s": f for p, f in (_DECIMAL | _BINARY).items()})
TIME = Kind("time", "20 us", {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "h": 3600.0, "years": 365.25 * 86400})
CLOCK = Kind("clock", "300 MHz", {"kHz": 1e3, "MHz": 1e6, "GHz": 1e9})
COMPUTE = Kind("compute rate", "312 TFLOP/s", {f"{p}FLOP/s": f for p, f in _DECIMAL.items() if p in "GTP" and p})
POWER = Kind("power", "25 W", {"W": 1.0, "kW": 1e3})
MONEY = Kind("price", "2400 USD", {"USD": 1.0})
NUMBER = Kind("number", "0.6", {"": 1.0})


# Nothing that is measured is smaller, and what is divided by it stays finite.
SMALLEST = 1e-12


@dataclass(frozen=True)
class Limits:
    """Values of a field: at least `least` (or above it) and at most `most`, in base units."""

    kind: Kind
    least: float
    most: float
    above: bool = False

    def check(self, value: float, what: str) -> float:
        """`value`; UserError names what is impossible and what is allowed."""
        if math.isnan(value) or not self.least <= value <= self.most or (self.above and value == self.least):
            first = "above" if self.above else "from"
            raise UserError(f"{what} = {self.text(value)} is impossible; {first} {self.text(self.least)} to "
                            f"{self.text(self.most)} is allowed")  # fmt: skip
        if 0 < value < SMALLEST:
            raise UserError(f"{what} = {self.text(value)} is impossible; {self.text(SMALLEST)} is the least above 0")
        return value

    def text(self, value: float) -> str:
        return f"{value:g} {base_unit(self.kind)}".strip()


def base_unit(kind: Kind) -> str:
    """The unit whose factor is 1; clocks have none, there it is Hz."""
    return next((unit for unit, factor in kind.units.items() if factor == 1.0), "Hz" if kind is CLOCK else "FLOP/s")


def parse(value: Any, kind: Kind, what: str) -> float:
    """A number in base units; bare numbers where the kind has no unit. UserError says what is wrong."""
    if kind is NUMBER and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    match = _TEXT.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in kind.units:
        known = ", ".join(unit for unit in kind.units if unit)
        unit = f"; units: {known}" if known else ""
        raise UserError(f"{what} is {value!r}; a {kind.name} such as '{kind.example}' is expected{unit}")
    try:
        return float(match[1].replace("_", "")) * kind.units[match[2]]
    except OverflowError as error:
        raise UserError(f"{what} is {value!r}, which no machine can hold") from error


def tokens(text: str, what: str) -> int:
    """A count of tokens: 4096, 4k (1024 each) or 1M."""
    match = re.fullmatch(r"\s*([0-9]+)\s*([kKmM]?)\s*", text)
    if match is None or not 0 < len(match[1]) < 16:
        raise UserError(f"{what} is {text!r}; a count such as 4096, 32k or 1M is expected")
    return int(match[1]) * {"": 1, "k": 1 << 10, "m": 1 << 20}[match[2].lower()]


def human_rate(value: float) -> str:
    """Bytes per second in GB/s."""
    return f"{value / 1e9:.2f} GB/s"


def human_size(value: float) -> str:
    """Bytes in powers of 1000."""
    for unit in ("PB", "TB", "GB", "MB", "kB"):
        if abs(value) >= SIZE.units[unit]:
            return f"{value / SIZE.units[unit]:.2f} {unit}"
    return f"{value:.0f} B"


def human_time(value: float) -> str:
    """Seconds in the largest unit that gives 1 or more."""
    steps = (("years", TIME.units["years"]), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6))
    for unit, factor in steps:
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"
