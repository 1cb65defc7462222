# SPDX-License-Identifier: Apache-2.0
"""Requests run side by side, no more than the depth; the first that failed is told, and none runs twice."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from nearkv.requests import Requests


def test_as_many_as_the_depth_are_in_flight_at_once() -> None:
    requests, meeting = Requests("r", depth=4), threading.Barrier(4)
    requests.run([lambda: (meeting.wait(60), None)[1]] * 8)  # ends only when four wait at the same time
    requests.close()


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 500])
def test_each_request_runs_once(count: int) -> None:
    requests, seen, lock = Requests("r"), Counter[int](), threading.Lock()

    def note(i: int) -> None:
        with lock:
            seen[i] += 1

    requests.run([lambda i=i: note(i) for i in range(count)])  # type: ignore[misc]
    assert seen == Counter(range(count))
    requests.close()
    requests.close()


@pytest.mark.parametrize("depth", [1, 4])
def test_a_failure_is_raised_after_all_that_began_have_ended(depth: int) -> None:
    requests, ended = Requests("r", depth), []

    def fail(i: int) -> None:
        try:
            if i in (3, 5):
                raise OSError(i)
        finally:
            ended.append(i)

    with pytest.raises(OSError, match=r"^[35]$") as caught:
        requests.run([lambda i=i: fail(i) for i in range(50)])  # type: ignore[misc]
    if depth == 1:
        assert (caught.value.args, ended) == ((3,), [0, 1, 2, 3])
    before = len(ended)
    requests.run([lambda: None] * 3)
    assert len(ended) == before
    requests.close()
