# SPDX-License-Identifier: Apache-2.0
"""The list that both sides of benchmarks/rtl_simulation.py run."""

from __future__ import annotations

from tests.support.jobs import Image, build
from tests.support.speed_jobs import job


def timed_list(tokens: int) -> Image:
    """One job of 8 rows, d = 128."""
    return build([job(128, 8, tokens)])
