# SPDX-License-Identifier: Apache-2.0
"""Lets a child process be killed when the thread that started it dies, be it by SIGKILL. Linux only; starts nothing."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def killed_with_parent(parent: int | None = None) -> Callable[[], None]:
    """For `preexec_fn` of Popen: the child gets SIGKILL when the thread that called Popen ends, so that thread must
    wait for it. `parent`: process id of the caller, the default. Kept over exec, except of a set-user-ID program, and
    not inherited by what the child starts.

    Raises OSError in the child where the kernel refuses, which Popen makes a SubprocessError.
    """
    # All that can take a lock is done here: the child is a copy of one thread of many.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes, prctl.restype = (ctypes.c_int, *[ctypes.c_ulong] * 4), ctypes.c_int
    starter = os.getpid() if parent is None else parent

    def bind() -> None:
        if prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "PR_SET_PDEATHSIG")
        # The parent may have died before it was asked for; then no signal will come.
        if os.getppid() != starter:
            os.kill(os.getpid(), signal.SIGKILL)

    return bind
