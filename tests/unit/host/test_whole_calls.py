# SPDX-License-Identifier: Apache-2.0
"""A call that has begun has ended when Ctrl-C is told, wherever and however often it strikes."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
from nearkv.whole_calls import WholeCalls

from tests.support.interrupts import Interrupts


def fine() -> None:
    pass


def test_what_the_work_returns_and_raises_is_handed_on() -> None:
    calls = WholeCalls("c", fine)
    assert calls.run(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        calls.run(lambda: 1 // 0)
    assert calls.run(threading.current_thread).name == "c"
    calls.close()
    assert calls.run(threading.current_thread) is threading.main_thread()


def test_calls_inside_a_call_and_of_other_threads_run_where_they_are() -> None:
    calls, found = WholeCalls("c", fine), []
    assert calls.run(lambda: calls.run(threading.current_thread)).name == "c"
    other = threading.Thread(target=lambda: found.append(calls.run(threading.current_thread)))
    other.start()
    other.join(60)
    assert found == [other]
    calls.close()


def test_a_refusal_comes_before_the_call() -> None:
    seen: list[int] = []

    def refuse() -> None:
        raise ValueError("not here")

    calls = WholeCalls("c", refuse)
    with pytest.raises(ValueError, match="not here"):
        calls.run(lambda: seen.append(1))
    assert not seen


def test_a_call_may_close_them() -> None:
    calls = WholeCalls("c", fine)
    thread = calls.run(lambda: (calls.close(), threading.current_thread())[1])
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Ctrl-C in a weak reference
@pytest.mark.parametrize("again", [0, 1, 2, 3, 7, 20])
@pytest.mark.parametrize("hurried", [False, True])
def test_ctrl_c_at_any_moment_leaves_no_half_of_a_call(again: int, hurried: bool) -> None:
    moment, struck, halves = 0, True, 0
    while struck:
        moment += 1
        calls, seen, hurry = WholeCalls("c", fine), [], threading.Event()

        def work(seen: list[str] = seen, hurry: threading.Event = hurry) -> None:
            seen.append("begun")
            hurry.wait(0.001)  # most moments are in the waiting for it
            seen.append("ended")

        ctrl_c = Interrupts(moment, again)
        ended = False
        with suppress(KeyboardInterrupt), ctrl_c:
            calls.run(work, hurry.set if hurried else None)
            ended = True
        struck = ctrl_c.struck
        assert seen in ([], ["begun", "ended"]), (moment, again)
        assert seen or not ended
        halves += bool(seen) and not ended
        assert calls.run(lambda: 3) == 3
        calls.close()
    assert moment > 20
    assert halves > 5  # calls that went on while Ctrl-C was told
