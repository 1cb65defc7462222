# SPDX-License-Identifier: Apache-2.0
"""The table describes every stored token once, in order, whatever was stored, cropped and stored again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from nearkv.pages import GroupMap
from nearkv.segment_table import SegmentTable

from tests.support.stores import layout

TAIL, ROWS, HEADS = 0x9000_0000, 128, 2


def runs(count: int) -> list[Any]:
    return [SimpleNamespace(address=(i + 1) << 24, crc_address=(1 << 31) + (i << 12)) for i in range(count)]


@given(
    steps=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 31)), max_size=12),
    skip=st.integers(0, 3),
)
def test_segments_after_any_history(steps: list[tuple[int, int, int]], skip: int) -> None:
    shape = layout()
    table, groups, group = SegmentTable(shape, HEADS, TAIL, ROWS), runs(10), GroupMap(shape, HEADS)
    for layer, units, live in steps:
        stored = units * shape.unit_tokens
        table.set_stored(layer, stored, groups)
        drop = min(skip, stored // 128)
        found = table.segments(layer, drop, live, 3)
        assert found.shape == (HEADS, -(-stored // 128) - drop + (live > 0))
        for head in range(HEADS):
            position = drop * 128
            for segment in found[head]:
                assert segment["first_position"] == position
                extent = position // 128
                if position < stored:
                    address = groups[extent].address + group.offset(layer, head)
                    crc = groups[extent].crc_address + group.crc_offset(layer, head)
                    assert segment["v_addr"] == groups[extent].address + group.offset(layer, head, value=True)
                else:
                    address, crc = TAIL + ((layer * HEADS + head) * 2 * ROWS + 3) * shape.row_nbytes, 0
                    assert segment["v_addr"] == address + ROWS * shape.row_nbytes
                assert (segment["k_addr"], segment["crc_addr"]) == (address, crc)
                position += int(segment["tokens"])
            assert position == stored + live


def test_tail_addresses_lie_apart() -> None:
    table = SegmentTable(layout(), HEADS, TAIL, ROWS)
    addresses = [a for layer in range(2) for head in range(HEADS) for a in table.tail_addresses(layer, head, 0)]
    assert addresses == list(np.arange(8) * ROWS * layout().row_nbytes + TAIL)
    assert table.tail_addresses(0, 0, 5)[0] == TAIL + 5 * layout().row_nbytes
