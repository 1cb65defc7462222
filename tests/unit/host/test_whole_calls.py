# SPDX-License-Identifier: Apache-2.0
"""A call that has begun has ended when Ctrl-C is told, wherever and however often it strikes."""

from __future__ import annotations

import contextvars
import gc
import itertools
import signal
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType

import pytest
from nearkv.whole_calls import WholeCalls

from tests.support.interrupts import Interrupts


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Raises KeyboardInterrupt; a shell that runs the tests in the background lets its children ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


def test_where_no_thread_can_be_started_the_call_is_made_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from Python 3.12 on when the interpreter ends."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    calls = WholeCalls("c", fine)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert calls.run(threading.current_thread) is threading.main_thread()
    assert calls.run(threading.current_thread).name == "c"
    calls.close()


def test_a_call_may_close_them() -> None:
    calls = WholeCalls("c", fine)
    thread = calls.run(lambda: (calls.close(), threading.current_thread())[1])
    thread.join(60)
    assert not thread.is_alive()


def test_a_call_sees_the_callers_context() -> None:
    """NumPy's errstate, for one, and what a program puts into its log records."""
    who = contextvars.ContextVar("who", default="nobody")
    calls = WholeCalls("c", fine)
    assert calls.run(who.get) == "nobody"
    who.set("me")
    assert calls.run(who.get) == "me"
    calls.close()


def test_an_error_is_no_circle_that_keeps_what_the_call_worked_on() -> None:
    class Thing:
        def fail(self) -> None:
            raise ValueError

    calls, thing = WholeCalls("c", fine), Thing()
    kept = weakref.ref(thing)
    gc.disable()
    try:
        with suppress(ValueError):
            calls.run(thing.fail)
        del thing
        assert kept() is None
    finally:
        gc.enable()
    calls.close()


def to_main(number: int) -> None:
    ident = threading.main_thread().ident
    assert ident is not None
    signal.pthread_kill(ident, number)


def test_ctrl_c_in_the_closing_call_is_told_when_that_has_ended() -> None:
    calls, slow, seen = WholeCalls("c", fine), threading.Event(), []

    def close() -> threading.Thread:
        calls.close()
        to_main(signal.SIGINT)
        slow.wait(0.2)
        seen.append(threading.current_thread())
        return seen[0]

    with pytest.raises(KeyboardInterrupt):
        calls.run(close)
    assert [thread.name for thread in seen] == ["c"]
    seen[0].join(60)
    assert "c" not in [thread.name for thread in threading.enumerate()]


@pytest.fixture
def alarms() -> Iterator[None]:
    """SIGALRM raises TimeoutError 1, 2, 3, ...; SIGTERM ends the program."""
    numbers = itertools.count(1)

    def alarm(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(str(next(numbers)))

    def term(number: int, frame: FrameType | None) -> None:
        raise SystemExit(143)

    before = signal.signal(signal.SIGALRM, alarm), signal.signal(signal.SIGTERM, term)
    yield
    signal.signal(signal.SIGALRM, before[0])
    signal.signal(signal.SIGTERM, before[1])


@pytest.mark.usefixtures("alarms")
@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ([signal.SIGINT] * 3, KeyboardInterrupt),
        ([signal.SIGALRM] * 3, TimeoutError),
        ([signal.SIGINT, signal.SIGTERM, signal.SIGINT], SystemExit),
    ],
)
def test_what_handlers_of_signals_raise_is_told_when_the_call_has_ended(
    numbers: list[signal.Signals], told: type[BaseException]
) -> None:
    calls, slow, seen = WholeCalls("c", fine), threading.Event(), []
    hurried: SimpleQueue[None] = SimpleQueue()  # not an Event, which the next signal may break

    def work() -> None:
        for number in numbers:
            while True:
                to_main(number)
                with suppress(Empty):  # one that comes just before a lock is waited for is looked at after that only
                    hurried.get(timeout=0.5)
                    break
        slow.wait(0.1)
        seen.append(1)

    with pytest.raises(told):
        calls.run(work, lambda: hurried.put(None))
    assert seen == [1]
    assert calls.run(lambda: 3) == 3
    calls.close()


def test_a_failure_that_nobody_sees_for_a_ctrl_c_is_noted() -> None:
    calls = WholeCalls("c", fine)

    def work() -> None:
        to_main(signal.SIGINT)
        raise OSError("disk is full")

    with pytest.raises(KeyboardInterrupt) as caught:
        calls.run(work)
    assert caught.value.__notes__ == ["and the call that it fell into: disk is full"]
    calls.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Ctrl-C in a weak reference
@pytest.mark.parametrize("again", [0, 1, 2, 3, 7, 20])
@pytest.mark.parametrize("hurried", [False, True])
def test_ctrl_c_at_any_moment_leaves_no_half_of_a_call(again: int, hurried: bool) -> None:
    moment, struck = 0, True
    while struck:
        moment += 1
        calls, seen = WholeCalls("c", fine), []
        hurry: SimpleQueue[None] = SimpleQueue()  # not an Event, which Ctrl-C may break

        def work(seen: list[str] = seen, hurry: SimpleQueue[None] = hurry) -> None:
            seen.append("begun")
            with suppress(Empty):
                hurry.get(timeout=0.001)  # most moments are in the waiting for it
            seen.append("ended")

        ctrl_c = Interrupts(moment, again)
        ended = False
        with suppress(KeyboardInterrupt), ctrl_c:
            calls.run(work, partial(hurry.put, None) if hurried else None)
            ended = True
        struck = ctrl_c.struck
        assert seen in ([], ["begun", "ended"]), (moment, again)
        assert seen or not ended
        assert calls.run(lambda: 3) == 3
        calls.close()
    assert moment > 20
