# SPDX-License-Identifier: Apache-2.0
"""Run the command as users do, in its own process, with everything temporary under one folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 240  # about 20 times what the slowest command takes on an idle machine
# A shell that runs the tests in the background lets its children ignore Ctrl-C.
_TAKES_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
_MAIN = "import sys; from nearkv.cli import main; sys.exit(main())"


def command(*arguments: str, prelude: str = "") -> list[str]:
    """The command line; `prelude` is Python that runs before the command, to break something."""
    return [sys.executable, "-c", f"{prelude}\n{_MAIN}", *arguments]


def environment(temporary: Path) -> dict[str, str]:
    """One thread, no settings of the person who runs the tests, temporary folders under `temporary`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NEARKV_")}
    paths = os.pathsep.join(str(ROOT / part) for part in ("host", "driver", "emulation"))
    return {**kept, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1", "NEARKV_THREADS": "1", "PYTHONPATH": paths}


def run(temporary: Path, *arguments: str, prelude: str = "") -> subprocess.CompletedProcess[str]:
    return run_command(temporary, command(*arguments, prelude=prelude))


def run_command(temporary: Path, line: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        line,
        env=environment(temporary),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=False,
    )


def start(temporary: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command as a running process with its output in pipes."""
    return subprocess.Popen(
        command(*arguments, prelude=_TAKES_CTRL_C),
        env=environment(temporary),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
