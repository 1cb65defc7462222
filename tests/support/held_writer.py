# SPDX-License-Identifier: Apache-2.0
"""Writers that work when the test says so, or at once: every moment can be chosen, and none depends on a thread."""

from __future__ import annotations

from collections import deque

from nearkv.writer import Task, Work


class _HeldTask:
    def __init__(self, work: Work) -> None:
        self._work: Work | None = work
        self._failure: BaseException | None = None

    @property
    def done(self) -> bool:
        return self._work is None

    def run(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            try:
                work()
            except BaseException as error:
                self._failure = error

    def wait(self) -> None:
        self.run()
        if self._failure is not None:
            raise self._failure


class HeldWriters:
    """Called with a name it gives a writer; `held` is work of all of them, the oldest first."""

    def __init__(self) -> None:
        self.held: deque[_HeldTask] = deque()

    def __call__(self, name: str) -> HeldWriters:
        return self

    def give(self, work: Work) -> Task:
        task = _HeldTask(work)
        self.held.append(task)
        return task

    def work(self, count: int | None = None) -> None:
        """Does the `count` oldest pieces of work (None = all) that nobody has waited for."""
        while self.held and count != 0:
            task = self.held.popleft()
            if not task.done:
                task.run()
                count = None if count is None else count - 1

    @property
    def waiting(self) -> int:
        return sum(not task.done for task in self.held)

    def close(self) -> None:
        self.work()


class WriterAtOnce:
    """Does the work when it is given, on the thread that gives it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def give(self, work: Work) -> Task:
        task = _HeldTask(work)
        task.run()
        return task

    def close(self) -> None:
        pass
