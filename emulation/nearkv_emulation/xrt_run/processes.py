# SPDX-License-Identifier: Apache-2.0
"""Watches a host program and its device processes until the program ends, and sees that nothing of it is left.

The host's library spins for ever when its device is gone, and signals its whole process group when it crashes. So the
program runs in a session of its own, and a device that has ended badly ends it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from nearkv_driver.errors import TransportUnavailable

from nearkv_emulation.xrt_run.parent_death import killed_with_parent

_LOOK_EVERY_S = 0.1
_END_FOR_S = 10.0  # between asking a program to end and killing it
_GRACE_S = 1.0  # for a program to say itself what it noticed of a dead device


@dataclass(frozen=True)
class Outcome:
    """`status`: as a shell gives it, 128 + N after signal N. `trouble`: why the program was ended, if it was."""

    status: int
    trouble: str = ""


class HostProgram:
    """The program, started. A context manager: its process group is killed at the end.

    The thread that makes one must live until its end: the program dies with it, so that a killed run leaves none.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """ValueError where it cannot be started; TransportUnavailable where it cannot be tied to this thread."""
        try:
            self._process = subprocess.Popen(
                command, env=environ, start_new_session=True, preexec_fn=killed_with_parent()
            )
        except OSError as error:
            raise ValueError(f"{command[0]}: {error.strerror}") from error
        except subprocess.SubprocessError as error:
            raise TransportUnavailable(
                "this system refuses PR_SET_PDEATHSIG, so a program may outlive its run"
            ) from error
        self._pidfd = os.pidfd_open(self._process.pid)

    def __enter__(self) -> HostProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()
        os.close(self._pidfd)

    def watch(self, trouble: Callable[[], str], timeout_s: float | None = None) -> Outcome:
        """Until the program ends, `trouble` says something, or the time is up. Ctrl-C goes to the program, which has
        some seconds to end; KeyboardInterrupt is raised then."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            while not self._ended(_LOOK_EVERY_S):
                found = trouble()
                if found:
                    self._ended(_GRACE_S)
                    return Outcome(self._kill(), found)
                if deadline is not None and time.monotonic() > deadline:
                    return Outcome(self._kill(), f"the program has not ended within {timeout_s:g} s")
        except KeyboardInterrupt:
            self._signal(signal.SIGINT)
            self._ended(_END_FOR_S)
            raise
        return Outcome(_status(self._process.wait()))

    def _ended(self, seconds: float) -> bool:
        return bool(select.select([self._pidfd], [], [], seconds)[0])

    def _kill(self) -> int:
        self._signal(signal.SIGKILL)
        return _status(self._process.wait())

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):  # it has ended, or is no longer this user's
            return


class AttachedDevice:
    """A device process that the program attaches to. A context manager: it ends with the lifeline, else is killed."""

    def __init__(self, name: str, command: Sequence[str], environ: Mapping[str, str], listener: int, log: int) -> None:
        self.name = name
        lifeline, self._lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*command, "--listen-fd", str(listener), "--lifeline-fd", str(lifeline)],
                env=environ,
                stdin=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(listener, lifeline),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(lifeline)

    def __enter__(self) -> AttachedDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lifeline)
        try:
            self._process.wait(_END_FOR_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """Its exit status, if it has ended."""
        code = self._process.poll()
        return None if code is None else _status(code)


def _status(code: int) -> int:
    return 128 - code if code < 0 else code
