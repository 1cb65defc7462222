# SPDX-License-Identifier: Apache-2.0
"""What a device process leaves behind: a small JSON file, locked while the process lives. Decides nothing.

A file that says `running` and is not locked belongs to a process that was killed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class State(StrEnum):
    """How far a device process is."""

    RUNNING = "running"
    # Every host that opened the device has closed it.
    CLOSED = "closed"
    # A host went without closing the device.
    LOST = "lost"
    FAILED = "failed"


@dataclass(frozen=True)
class Report:
    """`pid`: the process that wrote it; `alive`: whether it still runs."""

    name: str
    state: State
    alive: bool
    pid: int = 0
    message: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


class ReportFile:
    """The writing side. The lock goes with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        # It appears with its lock: without, whoever reads it takes its process for dead.
        new = path.with_suffix(".new")
        self._fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        self.write(State.RUNNING)
        new.rename(path)

    def write(self, state: State, message: str = "", details: Mapping[str, Any] | None = None) -> None:
        document = {"state": state, "pid": os.getpid(), "message": message, "details": dict(details or {})}
        data = json.dumps(document).encode()
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, data, 0)

    def close(self) -> None:
        os.close(self._fd)


def read_report(path: Path) -> Report:
    """A file that is being written, or was cut off by a kill, reads as running."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            alive = False
        except BlockingIOError:
            alive = True
        text = file.read()
    try:
        document = json.loads(text)
        return Report(
            path.stem,
            State(document["state"]),
            alive,
            document["pid"],
            document["message"],
            document["details"],
        )
    except (ValueError, KeyError, TypeError):
        return Report(path.stem, State.RUNNING, alive)
