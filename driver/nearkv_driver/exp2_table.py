# SPDX-License-Identifier: Apache-2.0
"""The exp2 table of the weight stage, exact to the last bit on every machine.

Entry i holds 2**(i/1024) with 24 fraction bits, lowered by half the sag of the chord to entry i + 1, and the slope to
that entry (docs/arithmetic.md, step 4). Decimal arithmetic is used because a libm may differ in its last bit.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from functools import cache

from nearkv_driver.regmap import WEIGHT_FRACTION_BITS, WEIGHT_TABLE_BITS


@cache
def exp2_table() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(base, slope), each with 2**WEIGHT_TABLE_BITS integers."""
    entries = 1 << WEIGHT_TABLE_BITS
    with localcontext() as context:
        context.prec = 60
        one = Decimal(1 << WEIGHT_FRACTION_BITS)
        ln2 = Decimal(2).ln()
        step = [(ln2 * i / entries).exp() for i in range(entries + 1)]

        def nearest(x: Decimal) -> int:
            return int(x.to_integral_value(ROUND_HALF_EVEN))

        chord = [nearest(x * one) for x in step]
        sag = (ln2 / entries) ** 2 / 16 * one
        base = tuple(chord[i] - nearest(step[i] * sag) for i in range(entries))
    return base, tuple(chord[i + 1] - chord[i] for i in range(entries))
