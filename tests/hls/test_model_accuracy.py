# SPDX-License-Identifier: Apache-2.0
"""Error of every implementation against the float64 oracle, in each family of docs/arithmetic.md."""

from __future__ import annotations

import pytest

from tests.support.families import BOUND, FAMILIES, attended, inputs, relative_error
from tests.support.kernels import IMPLEMENTATIONS, kernel

SEED = 0


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(("tokens", "head_size"), [(1000, 64), (4096, 128), (1024, 80), (1024, 256)])
@pytest.mark.parametrize("family", FAMILIES)
def test_error_is_below_the_bound(implementation: str, family: str, tokens: int, head_size: int) -> None:
    q, k, v = inputs(family, tokens, head_size, SEED)
    scale = head_size**-0.5
    assert relative_error(attended(kernel(implementation), q, k, v, scale), q, k, v, scale) < BOUND


@pytest.mark.parametrize("family", FAMILIES)
def test_error_is_below_the_bound_over_a_long_context(family: str) -> None:
    q, k, v = inputs(family, 32 * 1024, 64, SEED)
    assert relative_error(attended(kernel("csim"), q, k, v, 0.125), q, k, v, 0.125) < BOUND


@pytest.mark.parametrize("family", ["normal", "sink", "cancelling V"])
def test_error_is_below_the_bound_at_128k_tokens(family: str) -> None:
    q, k, v = inputs(family, 128 * 1024, 128, SEED)
    scale = 128**-0.5
    assert relative_error(attended(kernel("csim"), q, k, v, scale), q, k, v, scale) < BOUND


@pytest.mark.soak
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("head_size", [64, 128])
@pytest.mark.parametrize("seed", range(1, 4))
def test_error_is_below_the_bound_at_128k_tokens_everywhere(family: str, head_size: int, seed: int) -> None:
    q, k, v = inputs(family, 128 * 1024, head_size, seed)
    scale = head_size**-0.5
    assert relative_error(attended(kernel("csim"), q, k, v, scale), q, k, v, scale) < BOUND
