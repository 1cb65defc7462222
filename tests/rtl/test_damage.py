# SPDX-License-Identifier: Apache-2.0
"""Bits flipped in list, descriptors, K and V, and memory that does not answer: the RTL ends like the model."""

from __future__ import annotations

import numpy as np
import pytest
from nearkv_driver import regmap as rm
from nearkv_emulation.rtl import RtlCard, RtlKernel
from numpy.typing import NDArray

from tests.hls.test_equality import damaged
from tests.rtl.test_equality import LIMIT, differing
from tests.support.jobs import Job, Segment, build
from tests.support.random_jobs import random_image
from tests.support.rtl_tools import needs_verilator, one_process, patient

pytestmark = [needs_verilator, patient, one_process]


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_random_damage(first: int) -> None:
    with RtlCard() as card:
        kernel = RtlKernel(card, LIMIT)
        for seed in range(first, first + 100):
            rng = np.random.default_rng(seed)
            image = damaged(rng, random_image(rng, 200))
            assert differing(image, kernel, "damage") == [], f"seed {seed}"


@pytest.mark.parametrize("tokens", [16, 128, 300])
def test_a_refused_job_does_not_hold_up_the_one_before(tokens: int) -> None:
    """K of the second job is being read when a later segment of it is refused; the first still needs its V."""
    rng = np.random.default_rng(8)

    def half(count: int) -> NDArray[np.float16]:
        return rng.normal(size=(count, 64)).astype(np.float16)

    def job(segments: list[Segment]) -> Job:
        return Job(rng.normal(size=(2, 64)).astype(np.float32), [(0, 999)], 0.1, segments)

    first = job([Segment(0, half(tokens), half(tokens))])
    # A segment at position 40 neither begins at a tile nor where the one before ended.
    second = job([Segment(0, half(16), half(16)), Segment(16, half(16), half(16)), Segment(40, half(16), half(16))])
    image = build([first, second])
    with RtlCard() as card:
        kernel = RtlKernel(card, LIMIT)
        assert differing(image, kernel) == []
        codes = [status["code"] for status in image.statuses(image.run(kernel))]
    assert codes == [rm.Status.OK, rm.Status.BAD_SEGMENT]
