# SPDX-License-Identifier: Apache-2.0
"""Numbers on a benchmark's command line: refused by value and limit before anything is measured. Nothing is timed."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable


def whole(least: int = 1, multiple: int = 1) -> Callable[[str], int]:
    """A `type` for argparse: whole numbers from `least` on, multiples of `multiple`."""
    kind = f"a whole number of at least {least}" + (f", a multiple of {multiple}," if multiple > 1 else "")

    def parse(text: str) -> int:
        value = int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else -1
        if value < least or value % multiple:
            raise ArgumentTypeError(f"{text!r}: {kind} is expected")
        return value

    return parse


def number(least: float, *, above: bool = False) -> Callable[[str], float]:
    """A `type` for argparse: finite numbers from `least` on, or above it."""
    kind = f"a number {'above' if above else 'of at least'} {least:g}"

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value < math.inf or (above and value == least):
            raise ArgumentTypeError(f"{text!r}: {kind} is expected")
        return value

    return parse
