# SPDX-License-Identifier: Apache-2.0
"""Several reads or writes of a volume in flight at once. Knows no file: a request is a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from nearkv_driver.work_threads import WorkThreads

Request = Callable[[], None]

# A drive reaches its rate with about this many small requests under way.
DEPTH = 16


class Requests:
    """Threads that only wait for the drive; started when first needed."""

    def __init__(self, name: str, depth: int = DEPTH) -> None:
        self.depth = depth
        self._threads = WorkThreads(name, depth)

    def run(self, requests: Sequence[Request]) -> None:
        """Returns when all have ended. Raises the error of the first that failed; those not begun by then are left."""
        if len(requests) < 2:
            for request in requests:
                request()
            return
        numbers = count()
        failed: list[tuple[int, BaseException]] = []

        def some() -> None:
            # next() on a count is one step of the interpreter, so no two threads take the same request.
            while not failed and (i := next(numbers)) < len(requests):
                try:
                    requests[i]()
                except BaseException as error:
                    failed.append((i, error))

        workers = [self._threads.give(some) for _ in range(min(self.depth, len(requests)))]
        for worker in workers:
            worker.wait()
        if failed:
            try:
                raise min(failed, key=lambda entry: entry[0])[1]
            finally:
                failed.clear()  # the error's traceback has these frames

    def close(self) -> None:
        """May be called again."""
        self._threads.close()
