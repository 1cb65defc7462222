# SPDX-License-Identifier: Apache-2.0
"""Jobs of random rows whose cycles are measured. Fixed by their seed; nothing here is run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.support.jobs import Job, Segment


def job(
    head_size: int,
    rows: int,
    tokens: int,
    segment: int = 0,
    new: int = 0,
    state: bytes | None = None,
    seed: int = 1,
    *,
    rest_checked: bool = True,
) -> Job:
    """A job over `tokens` tokens: one unchecked segment, or checked ones of `segment` tokens, the last one of what is
    left, which without `rest_checked` is as it lies in a tail; behind them `new` rows, copied to the tail."""
    rng = np.random.default_rng(seed)

    def half(count: int) -> NDArray[np.float16]:
        return rng.normal(size=(count, head_size)).astype(np.float16)

    def stored(at: int, count: int) -> Segment:
        return Segment(at, half(count), half(count), checked=segment != 0 and (rest_checked or count == segment))

    size = segment or tokens
    return Job(
        rng.normal(size=(rows, head_size)).astype(np.float32),
        [(0, tokens + new)],
        0.1,
        [stored(at, min(size, tokens - at)) for at in range(0, tokens, size)],
        new=Segment(tokens, half(new), half(new)) if new else None,
        tail=new != 0,
        state_in=state,
        state_out=state is not None,
    )
