# SPDX-License-Identifier: Apache-2.0
"""What a spill needs of whoever does its work behind the caller's back. The store's own is WorkThreads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Work = Callable[[], None]


class Task(Protocol):
    """Work that was given to a writer."""

    @property
    def done(self) -> bool: ...

    def wait(self) -> None:
        """Returns when the work has ended; raises what it raised."""
        ...


class Writer(Protocol):
    """Takes work in order. Tests have their own, which does it when told."""

    def give(self, work: Work) -> Task: ...

    def close(self) -> None:
        """Returns when everything that was given has ended; may be called again."""
        ...
