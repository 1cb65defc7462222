# SPDX-License-Identifier: Apache-2.0
"""Requests cover every page of a wave once, in its place; neighbours on flash are one request."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearkv.card_sequence import Group
from nearkv.fetches import Fetch, requests
from nearkv.pages import GroupMap
from nearkv.volume_records import Place
from nearkv.waves import Share, cut

from tests.support.stores import layout

SHAPE = layout(layers=1)
EXTENT = SHAPE.extent_nbytes
WHOLE = 1 << 30


def fetch(slot: int, tokens: int = 128, *, heads: int = 1, layer: int = 0, file: int = 0) -> Fetch:
    return Fetch(Group(None, Place(file, slot), np.zeros(0, np.uint32), [0]), 0, layer, tokens, heads)


def test_neighbours_on_flash_are_one_request() -> None:
    wave = (fetch(3), fetch(4), fetch(5, heads=2), fetch(8), fetch(9, file=1))
    found = [(r.place.file, r.place.slot, r.at, r.nbytes) for r in requests(wave, SHAPE, WHOLE)]
    assert found == [(0, 3, 0, 4 * EXTENT), (0, 8, 4 * EXTENT, EXTENT), (1, 9, 5 * EXTENT, EXTENT)]


def test_a_request_is_not_larger_than_allowed() -> None:
    found = requests((fetch(0), fetch(1)), SHAPE, 3 * EXTENT // 4)
    assert [(r.at, r.nbytes) for r in found] == [(0, 24576), (24576, 24576), (49152, 16384)]


@pytest.mark.parametrize("head_size", [64, 80, 256])
def test_a_part_of_an_extent_reads_whole_units_of_k_and_v(head_size: int) -> None:
    shape = layout(head_size=head_size)
    half, tokens = shape.extent_nbytes // 2, shape.unit_tokens
    found = requests((fetch(0, tokens, heads=2, layer=1),), shape, WHOLE)
    start = GroupMap(shape, 2).offset(1, 0)
    assert [(r.offset, r.at, r.nbytes) for r in found] == [
        (start + i * half, i * half, tokens * shape.row_nbytes) for i in range(4)
    ]


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from([32, 64, 96, 128]), st.integers(1, 2)), max_size=12),
    st.sampled_from([4096, 65536, WHOLE]),
)
def test_every_page_comes_once_to_its_place(some: list[tuple[int, int, int]], most: int) -> None:
    wave = tuple(fetch(slot, tokens, heads=heads) for slot, tokens, heads in some)
    wanted, at = {}, 0
    for one in wave:
        for half in range(2 * one.heads):
            for page in range(one.tokens * SHAPE.row_nbytes // 4096):
                inside = half * EXTENT // 2 + page * 4096
                wanted[at + inside] = one.group.place.slot * SHAPE.slot_nbytes + inside
        at += one.nbytes(SHAPE)
    found = {}
    for request in requests(wave, SHAPE, most):
        assert request.nbytes <= most
        for page in range(0, request.nbytes, 4096):
            assert request.at + page not in found
            found[request.at + page] = request.place.slot * SHAPE.slot_nbytes + request.offset + page
    assert found == wanted


def test_waves_are_filled_source_by_source() -> None:
    a, b, c = [fetch(i) for i in range(3)], [fetch(9, heads=2)], [fetch(20), fetch(21)]
    steps = cut([a, [], b, c], 2 * EXTENT, SHAPE)
    assert [step.wave for step in steps] == [(a[0], a[1]), (a[2],), (b[0],), (c[0], c[1])]
    assert [step.shares for step in steps] == [
        (Share(0, 0, 2, 0),),
        (Share(0, 2, 3, 0),),
        (Share(2, 0, 1, 0),),
        (Share(3, 0, 2, 0),),
    ]


@given(st.lists(st.lists(st.integers(1, 3), max_size=6), max_size=5), st.integers(3, 8))
def test_a_cut_loses_nothing_and_one_source_at_most_spans_two_waves(heads: list[list[int]], room: int) -> None:
    sources = [[fetch(0, heads=n) for n in some] for some in heads]
    steps = cut(sources, room * EXTENT, SHAPE)
    assert [f for step in steps for f in step.wave] == [f for some in sources for f in some]
    seen = [0] * len(sources)
    for step in steps:
        assert 0 < sum(f.nbytes(SHAPE) for f in step.wave) <= room * EXTENT
        at = 0
        for share in step.shares:
            assert (share.first, share.offset) == (seen[share.source], at)
            seen[share.source] = share.end
            at += sum(f.nbytes(SHAPE) for f in sources[share.source][share.first : share.end])
        assert all(share.end == len(sources[share.source]) for share in step.shares[:-1])
    assert seen == [len(some) for some in sources]
