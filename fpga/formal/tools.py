# SPDX-License-Identifier: Apache-2.0
"""Calls of Yosys and of the ABC that comes with it, within a time limit. Knows no property."""

from __future__ import annotations

import importlib.util
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

# A process of its own: Yosys ends the process on an error.
RUN_YOSYS = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for line in open(sys.argv[1]):
    libyosys.run_pass(line.strip(), design)
"""


# seconds of wall clock per second of CPU, after which a tool hangs
MOST_WALL = 20


class ToolError(Exception):
    """Yosys or ABC did not do what was asked; the text is the end of what it printed."""


class OutOfTime(Exception):
    """The limit of a proof passed."""


def children_s() -> float:
    """Seconds of CPU that ended child processes took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@dataclass
class Clock:
    """What is left of a proof's time, in seconds of CPU: a busy machine changes no verdict."""

    limit_s: int
    start: float = field(default_factory=children_s)

    def left_s(self) -> int:
        left = self.start + self.limit_s - children_s()
        if left <= 0:
            raise OutOfTime
        return int(left) + 1


def tools_missing() -> str | None:
    """Name of what is not installed, if anything."""
    try:
        abc_program()
    except ModuleNotFoundError:
        return "pyosys"
    return None


def abc_program() -> Path:
    """Found, not imported: pyosys in a process breaks other libraries there that are made with pybind11."""
    spec = importlib.util.find_spec("pyosys")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pyosys is not installed", name="pyosys")
    path = Path(spec.origin).parent / "yosys-abc"
    if not path.exists():
        raise ToolError(f"{path} is missing: this pyosys brings no ABC")
    return path


def ran(command: Sequence[str | Path], folder: Path, clock: Clock) -> str:
    left_s = clock.left_s()

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (left_s, left_s + 1))

    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=MOST_WALL * left_s, preexec_fn=limited
        )
    except subprocess.TimeoutExpired:
        raise OutOfTime from None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise OutOfTime
    if done.returncode:
        printed = (done.stdout + done.stderr).splitlines()
        errors = [line for line in printed if line.startswith("ERROR")]
        raise ToolError("\n".join(errors or printed[-20:]))
    return done.stdout


def yosys(script: Sequence[str], name: str, folder: Path, clock: Clock) -> str:
    path = folder / f"{name}.ys"
    path.write_text("\n".join(script) + "\n")
    return ran([sys.executable, "-c", RUN_YOSYS, path], folder, clock)


def abc(commands: Sequence[str], folder: Path, clock: Clock) -> str:
    return ran([abc_program(), "-q", "; ".join(commands)], folder, clock)
