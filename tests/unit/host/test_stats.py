# SPDX-License-Identifier: Apache-2.0
"""The two formulas, with figures worked out by hand."""

from __future__ import annotations

from nearkv.layout import ModelLayout
from nearkv.stats import link_nbytes, offload_nbytes

from tests.support.stores import layout


def test_link_bytes_of_one_token_of_smollm2() -> None:
    shape = ModelLayout("smollm2", 30, 9, 3, 64)
    assert link_nbytes(shape, 1, 1) == 9 * 64 * 4 + 2 * 3 * 64 * 2 + 9 * (64 * 4 + 8) == 5448
    assert link_nbytes(shape, 3, 0) == 3 * (9 * 64 * 4 + 9 * (64 * 4 + 8))
    assert offload_nbytes(shape, 1000) == 2 * 3 * 64 * 2 * 1000


def test_head_sizes_count_with_their_padding() -> None:
    assert offload_nbytes(layout(head_size=80), 1) == offload_nbytes(layout(head_size=96), 1)
    assert link_nbytes(layout(head_size=80), 1, 1) == link_nbytes(layout(head_size=96), 1, 1)
