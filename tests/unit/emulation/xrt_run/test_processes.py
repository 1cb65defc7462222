# SPDX-License-Identifier: Apache-2.0
"""A host program and whoever watches it: nothing of it outlives a killed watcher. Needs no XRT."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from nearkv_driver.errors import TransportUnavailable
from nearkv_emulation.xrt_run import processes
from nearkv_emulation.xrt_run.parent_death import killed_with_parent
from nearkv_emulation.xrt_run.processes import HostProgram

from tests.support import cli
from tests.support.processes import require_ended

_WATCHER = """
import os, sys
from nearkv_emulation.xrt_run.processes import HostProgram
with HostProgram(["sh", "-c", "echo $$; exec sleep 1000"], os.environ) as program:
    program.watch(lambda: "")
"""


def test_a_program_is_killed_with_its_watcher(tmp_path: Path) -> None:
    line = [sys.executable, "-c", _WATCHER]
    with subprocess.Popen(line, env=cli.environment(tmp_path), stdout=subprocess.PIPE, encoding="utf-8") as watcher:
        assert watcher.stdout is not None
        program = int(watcher.stdout.readline())
        watcher.kill()
    require_ended(program)


def test_a_child_whose_parent_died_before_it_could_ask_is_killed_too() -> None:
    """Seen from the child: its parent is another process than the one that started it."""
    with subprocess.Popen(["sleep", "100"], preexec_fn=killed_with_parent(parent=os.getppid())) as child:
        assert child.wait(60) == -9


def test_a_program_that_ends_itself_keeps_its_status() -> None:
    with HostProgram(["sh", "-c", "exit 7"], os.environ) as program:
        assert program.watch(lambda: "").status == 7


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="/nowhere/program: No such file"):
        HostProgram(["/nowhere/program"], os.environ)


def test_a_system_that_cannot_tie_them_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise OSError(1, "PR_SET_PDEATHSIG")

    monkeypatch.setattr(processes, "killed_with_parent", lambda: refused)
    with pytest.raises(TransportUnavailable, match="PR_SET_PDEATHSIG"):
        HostProgram(["true"], os.environ)
