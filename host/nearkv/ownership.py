# SPDX-License-Identifier: Apache-2.0
"""What a store or session owns outside Python's memory, and which process may use and release it. Knows nothing of what
it is."""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack

from nearkv.errors import UserError


class Owner:
    """The process that opened a store or something else, `what` for messages. A fork inherits the object, but neither
    the threads nor the right to write and close."""

    def __init__(self, what: str = "store") -> None:
        self._what, self._pid = what, os.getpid()

    @property
    def here(self) -> bool:
        return os.getpid() == self._pid

    def check(self) -> None:
        """UserError in another process."""
        if not self.here:
            raise UserError(
                f"this {self._what} was opened by process {self._pid} and cannot be used in process {os.getpid()}, "
                f"which was forked from it; open a {self._what} of its own there"
            )


def abandon(owner: Owner, resources: ExitStack) -> None:
    """For a store that was dropped without `close`: locks and cards are free again, unflushed rows are not kept."""
    if owner.here:
        text = "a KVStore was dropped without close(); rows since its last flush are lost"
        warnings.warn(text, ResourceWarning, stacklevel=2)
        resources.close()
