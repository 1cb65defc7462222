# SPDX-License-Identifier: Apache-2.0
"""Several reads or writes of a volume in flight at once. Knows no file: a request is a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import count

Request = Callable[[], None]

# A drive reaches its rate with about this many small requests under way.
DEPTH = 16


class Requests:
    """Threads that only wait for the drive; started when first needed."""

    def __init__(self, name: str, depth: int = DEPTH) -> None:
        self._name, self.depth = name, depth
        self._pool: ThreadPoolExecutor | None = None

    def run(self, requests: Sequence[Request]) -> None:
        """Returns when all have ended. Raises the error of the first that failed; those not begun by then are left."""
        if len(requests) < 2:
            for request in requests:
                request()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.depth, thread_name_prefix=self._name)
        numbers = count()
        failed: list[tuple[int, BaseException]] = []

        def some() -> None:
            # next() on a count is one step of the interpreter, so no two threads take the same request.
            while not failed and (i := next(numbers)) < len(requests):
                try:
                    requests[i]()
                except BaseException as error:
                    failed.append((i, error))

        workers: list[Future[None]] = [self._pool.submit(some) for _ in range(min(self.depth, len(requests)))]
        wait(workers)
        if failed:
            raise min(failed, key=lambda entry: entry[0])[1]

    def close(self) -> None:
        """May be called again."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
