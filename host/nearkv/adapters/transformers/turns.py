# SPDX-License-Identifier: Apache-2.0
"""Who may compute and who may use the cards, when parts of a batch run at the same time. Starts no thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Turn = Callable[[], AbstractContextManager[None]]


class Turns:
    """Two places, each for one part at a time: the model's device and the cards. A part is in one of them or waits, so
    while it is at the cards another one computes. Which goes first changes when results come, never what they are."""

    def __init__(self) -> None:
        self._computing, self._cards = threading.Lock(), threading.Lock()

    @contextmanager
    def compute(self) -> Iterator[None]:
        with self._computing:
            yield

    @contextmanager
    def cards(self) -> Iterator[None]:
        """Inside `compute`: leaves the device to others meanwhile."""
        self._computing.release()
        try:
            with self._cards:
                yield
        finally:
            self._computing.acquire()
