# SPDX-License-Identifier: Apache-2.0
"""The bodies that synthesis sees leave the same bytes as the fast ones, and break none of their own assumptions.

`SYNTHESIS` takes lanes by bit range, the checksum as matrices and the array step by step, in numbers of hardware width;
`CHECKED` also reports a number that does not fit its type and a stream that overflows or is not drained.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from nearkv_driver import regmap as rm
from nearkv_emulation.build import Variant
from nearkv_emulation.csim import CsimKernel

from tests.support.jobs import IDENTIFY, Image, Job, Segment, build
from tests.support.kernels import kernel
from tests.support.mutations import DESCRIPTOR_GROUPS, Broken, sound
from tests.support.mutations_data import DATA_GROUPS
from tests.support.random_jobs import random_image

VARIANTS = (Variant.SYNTHESIS, Variant.CHECKED)
FAULTS = [broken for group in (*DESCRIPTOR_GROUPS, *DATA_GROUPS) for broken in group(sound())]


@cache
def variant_kernel(variant: Variant) -> CsimKernel:
    return CsimKernel(variant=variant)


def same_bytes(image: Image, variant: Variant) -> np.ndarray:
    fast, other = image.run(kernel("csim")), image.run(variant_kernel(variant))
    assert image.statuses(other) == image.statuses(fast)
    assert (other == fast).all()
    return fast


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_random_lists(variant: Variant) -> None:
    for seed in range(150):
        image = random_image(np.random.default_rng(seed), max_tokens=200)
        assert {s["code"] for s in image.statuses(same_bytes(image, variant))} == {rm.Status.OK}, f"seed {seed}"


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
@pytest.mark.parametrize("broken", FAULTS, ids=lambda b: b.name)
def test_faults(broken: Broken, variant: Variant) -> None:
    same_bytes(broken.image, variant)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
@pytest.mark.parametrize("head_size", rm.HEAD_SIZES)
def test_extreme_values_fit_their_types(head_size: int, variant: Variant) -> None:
    """The largest magnitudes of q, K and V with all signs: sums reach the ends of their widths."""
    rng = np.random.default_rng(head_size)
    largest = np.finfo(np.float16).max
    for sign in (1, -1):
        k = np.full((300, head_size), largest, np.float16) * np.where(rng.random((300, 1)) < 0.5, 1, sign)
        v = np.full((300, head_size), sign * largest, np.float16)
        q = np.full((9, head_size), np.finfo(np.float32).max, np.float32)
        jobs = [
            Job(q, [(0, 300)], scale, [Segment(0, k.astype(np.float16), v.astype(np.float16))], raw=True)
            for scale in (1e-38, 1e-45, 1e30)
        ]
        same_bytes(build([IDENTIFY, *jobs]), variant)
