# SPDX-License-Identifier: Apache-2.0
"""Work is done in order, failures reach who waits, and closing waits for all of it."""

from __future__ import annotations

import threading

import pytest
from nearkv.writer import WriterThread


def test_work_is_done_in_order_on_one_other_thread() -> None:
    writer, seen = WriterThread("w"), []
    tasks = [writer.give(lambda i=i: seen.append((i, threading.get_ident()))) for i in range(20)]  # type: ignore[misc]
    for task in tasks:
        task.wait()
        assert task.done
    assert [i for i, _ in seen] == list(range(20))
    (thread,) = {ident for _, ident in seen}
    assert thread != threading.get_ident()
    writer.close()


def test_a_failure_reaches_who_waits_and_ends_nothing_else() -> None:
    writer = WriterThread("w")
    bad = writer.give(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    good = writer.give(lambda: None)
    good.wait()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            bad.wait()
    assert bad.done
    writer.close()


def test_closing_waits_for_what_was_given_and_may_be_repeated() -> None:
    writer, go, seen = WriterThread("w"), threading.Event(), []

    def work() -> None:
        go.wait()
        seen.append(1)

    task = writer.give(work)
    assert not task.done
    go.set()
    writer.close()
    assert task.done
    assert seen == [1]
    writer.close()
    WriterThread("never used").close()
