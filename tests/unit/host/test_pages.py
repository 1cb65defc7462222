# SPDX-License-Identifier: Apache-2.0
"""Offsets in an extent group do not overlap, do not wrap, and cuts at extent borders lose nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.layout import ModelLayout
from nearkv.pages import GroupMap, Piece, extents, pieces, whole_units

from tests.support.stores import layout


@given(first=st.integers(0, 1000), tokens=st.integers(0, 1000))
def test_pieces_cover_the_range_once(first: int, tokens: int) -> None:
    cut = list(pieces(first, first + tokens, 128))
    assert [p.extent * 128 + p.first + i for p in cut for i in range(p.tokens)] == list(range(first, first + tokens))
    assert all(p.first + p.tokens <= 128 for p in cut)


def test_pieces_and_rounding_at_borders() -> None:
    assert list(pieces(127, 129, 128)) == [Piece(0, 127, 1), Piece(1, 0, 1)]
    assert [whole_units(n, 32) for n in (0, 31, 32, 63)] == [0, 0, 32, 32]
    assert [extents(n, 128) for n in (0, 1, 128, 129)] == [0, 1, 1, 2]


@pytest.mark.parametrize("head_size", [64, 80, 256])
def test_rows_of_a_group_lie_side_by_side(head_size: int) -> None:
    shape = layout(head_size=head_size, layers=3)
    group = GroupMap(shape, heads=2)
    offsets = [
        group.offset(layer, head, value=value, token=token)
        for layer in range(3)
        for head in range(2)
        for value in (False, True)
        for token in range(128)
    ]
    assert offsets == [i * shape.row_nbytes for i in range(len(offsets))]
    assert group.nbytes == offsets[-1] + shape.row_nbytes
    crcs = [group.crc_offset(layer, head) for layer in range(3) for head in range(2)]
    assert crcs == [i * shape.extent_pages * 8 for i in range(len(crcs))]
    assert crcs[-1] + shape.extent_pages * 8 == shape.extent_units * shape.unit_crcs_nbytes(2)


def test_a_large_model_does_not_wrap() -> None:
    shape = ModelLayout("large", 64, 64, 8, 128)
    groups = 131072 // shape.extent_tokens
    assert groups * GroupMap(shape, 8).nbytes == 32 << 30


def test_readable_tokens_count_units_that_are_whole_in_every_layer() -> None:
    shape = layout()
    group = GroupMap(shape, 2)
    last_v = group.offset(1, 1, value=True)
    wanted = {group.nbytes: 128, group.nbytes - 1: 96, last_v + 4096: 32, last_v + 4095: 0, 0: 0, 1 << 40: 128}
    assert {nbytes: group.readable_tokens(nbytes) for nbytes in wanted} == wanted
