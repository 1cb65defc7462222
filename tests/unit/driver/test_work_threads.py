# SPDX-License-Identifier: Apache-2.0
"""Work is done in order, failures reach who waits, closing waits for all of it, and Ctrl-C at any moment of the thread
that gives and waits breaks none of this.
"""

from __future__ import annotations

import gc
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest
from nearkv_driver.work_threads import Call, Latch, WorkThreads

from tests.support.interrupts import Interrupts


def test_work_is_done_in_order_on_one_other_thread() -> None:
    threads, seen = WorkThreads("w"), []
    calls = [threads.give(lambda i=i: seen.append((i, threading.get_ident()))) for i in range(20)]  # type: ignore[misc]
    for call in calls:
        call.wait()
        assert call.done
    assert [i for i, _ in seen] == list(range(20))
    (thread,) = {ident for _, ident in seen}
    assert thread != threading.get_ident()
    threads.close()


def test_results_and_failures_reach_who_waits_and_a_failure_ends_nothing_else() -> None:
    threads = WorkThreads("w")
    bad = threads.give(lambda: 1 // 0)
    good = threads.give(lambda: 7)
    assert good.wait() == good.wait() == 7
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            bad.wait()
        with pytest.raises(ZeroDivisionError):
            bad.ends_within(60)
    assert isinstance(bad.error(), ZeroDivisionError)
    assert bad.done
    assert good.error() is None
    threads.close()


def test_closing_waits_for_what_was_given_and_may_be_repeated() -> None:
    threads, go, seen = WorkThreads("w", 3), threading.Event(), []

    def work() -> None:
        go.wait()
        seen.append(1)

    call = threads.give(work)
    assert not call.done
    assert not call.ends_within(0)
    assert not call.ends_within(-1)
    go.set()
    threads.close()
    assert call.done
    assert seen == [1]
    threads.close()
    assert threads.give(lambda: 8).wait() == 8  # others are started
    threads.close()
    WorkThreads("never used").close()


def test_closing_without_waiting_ends_the_thread_after_its_work() -> None:
    threads, go = WorkThreads("w"), threading.Event()
    threads.give(go.wait)
    last = threads.give(threading.current_thread)
    threads.close(wait=False)
    go.set()
    thread = last.wait()
    thread.join(60)
    assert not thread.is_alive()


def test_as_many_work_at_once_as_there_are_threads() -> None:
    threads, meeting = WorkThreads("w", 4), threading.Barrier(4)
    for call in [threads.give(lambda: meeting.wait(60)) for _ in range(4)]:
        call.wait()
    assert {thread.name for thread in threading.enumerate()} >= {"w 0", "w 1", "w 2", "w 3"}
    threads.close()


def test_withdrawn_work_never_begins_and_begun_work_cannot_be_withdrawn() -> None:
    threads, go, seen = WorkThreads("w"), threading.Event(), []
    begun = Call(lambda: go.wait(60))
    threads.put(begun)
    behind = Call(lambda: seen.append(1))
    threads.put(behind)
    assert behind.withdraw()
    go.set()
    assert begun.wait()
    threads.close()
    assert behind.withdraw()
    assert not begun.withdraw()
    assert not seen


def test_a_thread_may_close_its_own() -> None:
    threads = WorkThreads("w")
    assert threads.give(lambda: (threads.close(), 3)[1]).wait() == 3
    assert threads.give(lambda: 4).wait() == 4
    threads.close()


def test_no_thread_to_be_had_is_told_and_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = WorkThreads("w", 2)
    start, left = threading.Thread.start, [1]

    def refused(thread: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    before = threading.active_count()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:  # one that is being handled is not taken for a new one
            with pytest.raises(RuntimeError, match="start new thread"):
                threads.give(lambda: 1)
    assert threads.give(lambda: 2).wait() == 2
    threads.close()
    for thread in threading.enumerate():
        if thread.name.startswith("w "):  # of the first try: it ends by itself
            thread.join(60)
    assert threading.active_count() <= before


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Raises KeyboardInterrupt; a shell that runs the tests in the background lets its children ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_closing_that_ctrl_c_broke_off_waits_the_next_time() -> None:
    threads, go, seen = WorkThreads("w"), threading.Event(), []

    def work() -> None:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]
        go.wait(5)  # so long if the signal came just before a lock was waited for: it is looked at after that then
        seen.append(1)

    def given_and_closed() -> None:
        threads.give(work)
        threads.close()

    with pytest.raises(KeyboardInterrupt):
        given_and_closed()
    threading.Timer(0.1, go.set).start()
    threads.close()
    assert seen == [1]


def test_several_wait_for_one_call() -> None:
    threads, go, results = WorkThreads("w"), threading.Event(), []
    call = threads.give(lambda: (go.wait(60), 5)[1])
    waiters = [threading.Thread(target=lambda: results.append(call.wait())) for _ in range(5)]
    for waiter in waiters:
        waiter.start()
    go.set()
    for waiter in waiters:
        waiter.join(60)
    assert results == [5] * 5
    threads.close()


def test_a_failure_keeps_alive_only_what_its_traceback_shows() -> None:
    """Cards and files would otherwise stay open until the garbage is looked at."""

    class Thing:
        pass

    threads = WorkThreads("w")

    def fail(_: Thing) -> None:
        raise ValueError

    thing = Thing()
    kept = weakref.ref(thing)
    gc.disable()
    try:
        call: Call[None] | None = threads.give(lambda thing=thing: fail(thing))  # type: ignore[misc]
        assert call is not None
        failed = False
        try:  # pytest.raises would keep the error
            call.wait()
        except ValueError:
            failed = True
        assert failed
        threads.give(lambda: None).wait()
        del thing
        assert kept() is not None
        call = None
        assert kept() is None
    finally:
        gc.enable()
    threads.close()


def _given_and_waited_for(threads: WorkThreads) -> None:
    calls = [threads.give(lambda: None) for _ in range(2)]
    for call in calls:
        assert call.ends_within(60)
        call.wait()


def _closed(threads: WorkThreads) -> None:
    threads.give(lambda: None)
    threads.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Ctrl-C in a weak reference
@pytest.mark.parametrize("use", [_given_and_waited_for, _closed])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("again", [0, 1, 5])
def test_ctrl_c_at_any_moment_leaves_the_threads_usable(
    use: Callable[[WorkThreads], None], count: int, again: int
) -> None:
    moment, struck = 0, True
    while struck:
        moment += 1
        threads = WorkThreads("w", count)
        ctrl_c = Interrupts(moment, again)
        with suppress(KeyboardInterrupt), ctrl_c:
            use(threads)
        struck = ctrl_c.struck
        seen: list[int] = []
        calls = [threads.give(partial(seen.append, i)) for i in range(3)]
        assert all(call.ends_within(60) for call in calls), moment
        assert sorted(seen) == [0, 1, 2]
        assert count > 1 or seen == [0, 1, 2]
        threads.close()
    assert moment > 20


def test_ctrl_c_does_not_break_waiting() -> None:
    latch, moment, struck = Latch(), 0, True
    threading.Timer(0.0, latch.set).start()
    while struck:
        moment += 1
        ctrl_c = Interrupts(moment)
        with suppress(KeyboardInterrupt), ctrl_c:
            assert latch.wait()
            assert latch.wait(60)
        struck = ctrl_c.struck
    assert moment > 2
    assert latch.is_set
