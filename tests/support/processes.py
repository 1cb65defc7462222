# SPDX-License-Identifier: Apache-2.0
"""Whether other processes have ended. Ends none."""

from __future__ import annotations

import os
import select

_END_S = 60.0  # a process that is to end has so long on a busy machine


def require_ended(pid: int) -> None:
    """The process has ended or does within the time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = select.select([descriptor], [], [], _END_S)[0]
    os.close(descriptor)
    assert ended, f"process {pid} has not ended"
