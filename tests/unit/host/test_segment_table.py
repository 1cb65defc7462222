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


def group(number: int, first: int) -> Any:
    run = SimpleNamespace(address=(number + 1) << 24, crc_address=(1 << 31) + (number << 12))
    return SimpleNamespace(run=run, first=first)


@given(
    steps=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 31)), max_size=12),
    splits=st.sets(st.integers(1, 39)),
    skip=st.integers(0, 3),
)
def test_segments_after_any_history(steps: list[tuple[int, int, int]], splits: set[int], skip: int) -> None:
    """Groups begin where extents do and, for a sequence that shares extents, at any unit inside."""
    shape = layout()
    begins = sorted({extent * 128 for extent in range(10)} | {unit * shape.unit_tokens for unit in splits})
    groups, offsets = [group(i, at) for i, at in enumerate(begins)], GroupMap(shape, HEADS)
    table, copy = SegmentTable(shape, HEADS, TAIL, ROWS), SegmentTable(shape, HEADS, TAIL, ROWS)
    for layer, units, live in steps:
        stored = units * shape.unit_tokens
        table.set_stored(layer, stored, groups)
        copy.copy_stored(table)
        needed = [i for i, at in enumerate(begins) if at < stored][skip:]
        drop = min(skip, table.count(layer))
        found = table.segments(layer, drop, live, 3)
        np.testing.assert_array_equal(found, copy.segments(layer, drop, live, 3))
        assert found.shape == (HEADS, len(needed) + (live > 0))
        for head in range(HEADS):
            position = begins[needed[0]] if needed else stored
            for segment in found[head]:
                assert segment["first_position"] == position
                if position < stored:
                    number = begins.index(position)
                    run, token = groups[number].run, position % 128
                    address = run.address + offsets.offset(layer, head, token=token)
                    crc = run.crc_address + offsets.crc_offset(layer, head) + token * shape.row_nbytes // 4096 * 8
                    assert segment["v_addr"] == run.address + offsets.offset(layer, head, value=True, token=token)
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
