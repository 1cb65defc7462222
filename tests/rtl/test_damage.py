# SPDX-License-Identifier: Apache-2.0
"""Bits flipped in list, descriptors, K and V, and memory that does not answer: the RTL ends like the model."""

from __future__ import annotations

import numpy as np
import pytest
from nearkv_emulation.rtl import RtlCard, RtlKernel

from tests.hls.test_equality import damaged
from tests.rtl.test_equality import LIMIT, differing
from tests.support.random_jobs import random_image
from tests.support.rtl_tools import needs_verilator, patient

pytestmark = [needs_verilator, patient]


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_random_damage(first: int) -> None:
    with RtlCard() as card:
        kernel = RtlKernel(card, LIMIT)
        for seed in range(first, first + 100):
            rng = np.random.default_rng(seed)
            image = damaged(rng, random_image(rng, 200))
            assert differing(image, kernel) == [], f"seed {seed}"
