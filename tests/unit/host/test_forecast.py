# SPDX-License-Identifier: Apache-2.0
"""The next layer until something else is seen; then what came next the last time."""

from __future__ import annotations

import pytest
from nearkv import forecast as module
from nearkv.forecast import Call, Forecast


def test_unknown_calls_are_followed_by_the_next_layer() -> None:
    forecast = Forecast(3)
    assert forecast.after(Call(0, (1, 2), 0)) == Call(1, (1, 2), 0)
    assert forecast.after(Call(2, (1, 2), 8)) == Call(0, (1, 2), 8)


def test_turns_and_windows_are_learned() -> None:
    forecast, calls = Forecast(2), []
    for layer, window in ((0, 0), (1, 64)):
        calls += [Call(layer, (1, 2), window), Call(layer, (3,), window)]
    for call in (*calls, *calls):
        forecast.saw(call)
    assert [forecast.after(call) for call in calls] == [*calls[1:], calls[0]]


def test_the_latest_follower_counts_and_sequences_that_go_are_forgotten() -> None:
    forecast = Forecast(2)
    a, b, c = (Call(0, (i,), 0) for i in range(3))
    for call in (a, b, a, c):
        forecast.saw(call)
    assert forecast.after(a) == c
    forecast.forget()
    assert forecast.after(a) == Call(1, (0,), 0)
    forecast.saw(b)
    assert forecast.after(c) == Call(1, (2,), 0)


def test_beyond_the_most_calls_the_first_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no other, also where one that is known is learned again."""
    monkeypatch.setattr(module, "_MOST", 2)
    forecast = Forecast(9)
    a, b, c = (Call(0, (i,), 0) for i in range(3))
    for call in (a, b, a, b, c):
        forecast.saw(call)
    assert (forecast.after(a), forecast.after(b)) == (b, c)
    forecast.saw(a)
    assert [forecast.after(call) for call in (a, b, c)] == [Call(1, (0,), 0), c, a]
