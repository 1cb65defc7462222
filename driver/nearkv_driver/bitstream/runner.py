# SPDX-License-Identifier: Apache-2.0
"""Runs steps one after another: output to a log each, every command to one more, errors out of the log on failure."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nearkv_driver.bitstream.commands import Step
from nearkv_driver.bitstream.errors import StepFailed
from nearkv_driver.bitstream.failures import hint, last_errors

_PATIENCE_S = 20.0  # the tools write checkpoints when they are asked to end


@dataclass(frozen=True)
class Done:
    """A step that ended well."""

    step: Step
    log: Path
    seconds: float


class Runner:
    """Runs in `work`, which exists; `variables` is the environment of the tools."""

    def __init__(self, work: Path, variables: Mapping[str, str]) -> None:
        self._work, self._variables = work, dict(variables)
        self._commands = work / "commands.log"

    def run(self, steps: Sequence[Step], on_step: Callable[[Step, Path], None]) -> list[Done]:
        """StepFailed at the first step that ends with an error or leaves no output."""
        return [self._step(number, step, on_step) for number, step in enumerate(steps, 1)]

    def _step(self, number: int, step: Step, on_step: Callable[[Step, Path], None]) -> Done:
        log = self._work / "logs" / f"{number}-{step.name}.log"
        log.parent.mkdir(exist_ok=True)
        step.output.parent.mkdir(parents=True, exist_ok=True)
        on_step(step, log)
        self._note(f"{step.name}: {shlex.join(step.command)}")
        started = time.monotonic()
        code = self._execute(step, log)
        seconds = time.monotonic() - started
        self._note(f"{step.name}: exit code {code} after {seconds:.1f} s")
        if code != 0 or not step.output.is_file():
            lines = last_errors(log)
            if code == 0:
                lines = (*lines, f"{step.output} was not written")
            raise StepFailed(step.name, code, log, lines, hint(log))
        return Done(step, log, seconds)

    def _execute(self, step: Step, log: Path) -> int:
        """The exit code. The tools start others, so they get a process group that ends as one."""
        process: subprocess.Popen[bytes] | None = None
        with log.open("wb") as output:
            try:
                with _interrupts_held():
                    process = subprocess.Popen(
                        step.command,
                        cwd=self._work,
                        env=self._variables,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                return process.wait()
            except OSError as error:
                raise StepFailed(step.name, 127, log, (f"{step.command[0]} cannot be started: {error}",)) from error
            except BaseException:
                if process is not None:
                    _end(process)
                self._note(f"{step.name}: interrupted")
                raise

    def _note(self, text: str) -> None:
        with self._commands.open("a") as file:
            file.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {text}\n")


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C and SIGTERM that come inside are raised at the end: a process that nobody knows yet would live on."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread only
        return
    caught: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, lambda came, _: caught.append(came)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    for found in caught:
        signal.raise_signal(found)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks the whole group to end, then ends it, even when the wait is interrupted again."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(_PATIENCE_S)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass  # gone, or deaf
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
