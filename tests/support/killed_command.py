# SPDX-License-Identifier: Apache-2.0
"""Runs `nearkv` in a forked process that gets a signal at a chosen moment: before its call number `at` into C code,
which every system call is, or behind it for signals that have a handler. So a moment can be chosen again, as far as
its threads take turns.
"""

from __future__ import annotations

import faulthandler
import itertools
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from nearkv.cli import main


def run(arguments: Sequence[str], output: Path, *, at: int = 0, number: int = signal.SIGKILL) -> tuple[int, int]:
    """(exit code, negative for a signal; moments that `number` may strike at, 0 where it was killed). `at` 0: none."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.close(reader)
            fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (fd, 1), (fd, 2)):
                os.dup2(source, target)
            sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
            signal.signal(signal.SIGINT, signal.default_int_handler)
            faulthandler.dump_traceback_later(200, exit=True, file=fd)  # what stands still is told, and fails
            code = _count(arguments, writer, at, number)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), int(told or 0)


def _count(arguments: Sequence[str], writer: int, at: int, number: int) -> int:
    calls = itertools.count(1)  # next() is one step, whatever thread takes it
    # What a handler raises strikes the main thread behind a call, as with a real signal. Before one, or while this very
    # function runs because of one, it would skip the call, which may be the `__exit__` of a lock.
    handled = number != signal.SIGKILL
    moment = "c_return" if handled else "c_call"

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == moment and next(calls) == at:
            os.kill(os.getpid(), number)

    if not handled:
        threading.setprofile(called)  # the store's thread does most of the work
    sys.setprofile(called)
    try:
        return main(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        os.write(writer, str(next(calls) - 1).encode())
