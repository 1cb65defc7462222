# SPDX-License-Identifier: Apache-2.0
"""The list that both sides of benchmarks/rtl_simulation.py run."""

from __future__ import annotations

import numpy as np

from tests.support.jobs import Image, Job, Segment, build


def timed_list(tokens: int) -> Image:
    """One job of 8 rows, d = 128."""
    rng = np.random.default_rng(1)
    k, v = (rng.normal(size=(tokens, 128)).astype(np.float16) for _ in range(2))
    return build([Job(rng.normal(size=(8, 128)).astype(np.float32), [(0, tokens)], 0.1, [Segment(0, k, v)])])
