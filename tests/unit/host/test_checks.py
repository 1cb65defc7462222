# SPDX-License-Identifier: Apache-2.0
"""Checks name what is wrong; what they pass is complete."""

from __future__ import annotations

import numpy as np
import pytest
from nearkv import checks
from nearkv.errors import UserError
from nearkv.layout import ModelLayout
from nearkv_driver.regmap import POSITIONS_MAX

LAYOUT = ModelLayout("m", 1, 4, 2, 64)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_values_that_are_not_finite_are_named(value: float) -> None:
    k = np.full((2, 3, 64), 65504, np.float16)
    v = np.full((2, 3, 64), 6e-8, np.float16)
    checks.check_finite(k, v, 0, 0, LAYOUT)
    k[1, 2, 63] = value
    with pytest.raises(UserError, match=f"layer 4, sequence 7, KV head 1, new token 2: K holds {value}"):
        checks.check_finite(k, v, 4, 7, LAYOUT)


def test_picks_are_none_where_all_tokens_count() -> None:
    assert checks.picks_of(None, 2, 5) == [None, None]
    picks = checks.picks_of(np.array([[1, 1], [0, 1], [0, 0]], bool), 3, 2)
    assert picks[0] is None
    assert [list(p) for p in picks[1:] if p is not None] == [[1], []]
    with pytest.raises(UserError, match=r"\(2, 2\).*\[3, 2\]"):
        checks.picks_of(np.ones((2, 2), bool), 3, 2)


def test_the_longest_sequence_is_the_kernels() -> None:
    checks.check_length(POSITIONS_MAX, 3)
    with pytest.raises(UserError, match=f"sequence 3 would hold {POSITIONS_MAX + 1} tokens"):
        checks.check_length(POSITIONS_MAX + 1, 3)
