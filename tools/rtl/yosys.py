# SPDX-License-Identifier: Apache-2.0
"""Runs Yosys (PyPI's pyosys) on a script in a process of its own. Knows no design and reads no result.

python -m tools.rtl.yosys SCRIPT.ys     (what the functions here start)
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

# One module of this kernel takes at most a few minutes; more means that Yosys will not end.
TIMEOUT_S = 1800.0


class YosysFailed(RuntimeError):
    """Yosys ended with an error; carries the end of its log."""


def version() -> str:
    """Version of the pyosys package. Raises RuntimeError when it is not installed."""
    if importlib.util.find_spec("pyosys") is None:
        raise RuntimeError("synthesis needs Yosys: pip install --group synth")
    return importlib.metadata.version("pyosys")


def run(commands: list[str], folder: Path, timeout_s: float = TIMEOUT_S) -> str:
    """Runs commands with `folder` as working directory and returns the log. Raises YosysFailed."""
    version()
    script = folder / "script.ys"
    script.write_text("\n".join(commands) + "\n")
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), *(entry for entry in sys.path if entry)])
    env = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "tools.rtl.yosys", str(script)]
    # A process of its own: an error inside Yosys ends the process that it runs in.
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=timeout_s)
    log = done.stdout + done.stderr
    if done.returncode != 0:
        raise YosysFailed(f"yosys ended with {done.returncode}:\n{log[-2000:]}")
    return log


def main(argv: list[str]) -> int:
    """Runs one script file in this process."""
    from pyosys import libyosys

    design = libyosys.Design()
    for command in Path(argv[0]).read_text().splitlines():
        libyosys.run_pass(command, design)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
