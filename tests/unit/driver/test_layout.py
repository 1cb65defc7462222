# SPDX-License-Identifier: Apache-2.0
"""Packing of fixed layouts."""

from __future__ import annotations

import numpy as np
import pytest
from nearkv_driver import regmap
from nearkv_driver.layout import Field, Layout

LAYOUTS = [value for value in vars(regmap).values() if isinstance(value, Layout)]
GAPPED = Layout("gapped", 32, (Field("a", 0, "u32"), Field("b", 8, "u64"), Field("c", 20, "i32")))


def test_fields_land_at_their_offsets_and_gaps_are_zero() -> None:
    data = GAPPED.pack(a=1, b=2**63, c=-2)
    assert data.hex() == "01000000" + "00" * 4 + "00" * 7 + "80" + "00" * 4 + "feffffff" + "00" * 8
    assert GAPPED.unpack(data) == {"a": 1, "b": 2**63, "c": -2}
    assert GAPPED.end == 24


@pytest.mark.parametrize("layout", [*LAYOUTS, GAPPED], ids=lambda x: x.name)
def test_pack_unpack_and_the_numpy_dtype_agree(layout: Layout) -> None:
    values = {f.name: i + 1 for i, f in enumerate(layout.fields)}
    data = layout.pack(**values)
    assert len(data) == layout.nbytes == layout.dtype.itemsize
    assert layout.unpack(data) == values
    row = np.frombuffer(data, layout.dtype)[0]
    assert {name: int(row[name]) for name in layout.offset} == values


@pytest.mark.parametrize(("name", "value"), [("a", -1), ("a", 2**32), ("b", 2**64), ("c", 2**31), ("c", -(2**31) - 1)])
def test_values_that_do_not_fit_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=rf"gapped\.{name} = {value} does not fit"):
        GAPPED.pack(**{name: value})


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="no field"):
        GAPPED.pack(d=1)


def test_short_data_is_refused() -> None:
    with pytest.raises(ValueError, match="needs 32 bytes, got 31"):
        GAPPED.unpack(bytes(31))
