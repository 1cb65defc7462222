# SPDX-License-Identifier: Apache-2.0
"""Sizes that follow from a model's shape, and shapes that are refused."""

from __future__ import annotations

import pytest
from nearkv.errors import UserError
from nearkv.layout import ModelLayout

from tests.support.stores import layout


@pytest.mark.parametrize(
    ("head_size", "d_pad", "unit_tokens", "unit_pages"),
    [(64, 64, 32, 1), (80, 96, 64, 3), (96, 96, 64, 3), (112, 128, 16, 1), (128, 128, 16, 1), (256, 256, 16, 2)],
)
def test_units_are_the_smallest_multiple_of_16_tokens_in_whole_pages(
    head_size: int, d_pad: int, unit_tokens: int, unit_pages: int
) -> None:
    shape = layout(head_size=head_size)
    assert (shape.d_pad, shape.unit_tokens, shape.unit_pages) == (d_pad, unit_tokens, unit_pages)
    assert shape.extent_tokens == shape.extent_units * unit_tokens == 128
    assert shape.extent_nbytes == 2 * shape.extent_pages * 4096


def test_bytes_per_token_of_smollm2() -> None:
    assert ModelLayout("smollm2", 30, 9, 3, 64).kv_bytes_per_token == 23040


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"model": ""}, "name"),
        ({"layers": 0}, "layers = 0"),
        ({"kv_heads": True}, "kv_heads = True"),
        ({"head_size": 72}, r"head_size = 72 .*\[64, 80, 96, 112, 128, 256\]"),
        ({"kv_heads": 3}, "query_heads = 4 is not a multiple of kv_heads = 3"),
        ({"query_heads": 130}, "65 query heads"),
        ({"dtype": "float8"}, "'float8' is not supported"),
    ],
)
def test_shapes_that_no_card_takes_are_refused(changes: dict[str, object], text: str) -> None:
    with pytest.raises(UserError, match=text):
        layout(**changes)
