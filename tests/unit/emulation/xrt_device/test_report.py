# SPDX-License-Identifier: Apache-2.0
"""Reports of device processes: what they say, and that a dead writer is noticed."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from nearkv_emulation.xrt_device.report import ReportFile, State, read_report


def test_a_report_says_who_wrote_it_and_whether_he_lives(tmp_path: Path) -> None:
    path = tmp_path / "device0.json"
    file = ReportFile(path)
    running = read_report(path)
    assert (running.name, running.state, running.alive, running.pid) == ("device0", State.RUNNING, True, os.getpid())
    file.write(State.FAILED, "a long message", {"sessions": [1, 2]})
    file.write(State.LOST, "short")
    file.close()
    ended = read_report(path)
    assert (ended.state, ended.alive, ended.message, ended.details) == (State.LOST, False, "short", {})


def test_a_report_appears_with_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever reads it between the two takes its process for dead."""
    path, lock = tmp_path / "device0.json", fcntl.flock
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", lambda fd, how: (lock(fd, how), seen.append(path.exists())))
        seen: list[bool] = []
        ReportFile(path).close()
    assert seen == [False]
    assert [entry.name for entry in tmp_path.iterdir()] == ["device0.json"]


@pytest.mark.parametrize("text", ["", '{"state": "clo', "[]", '{"state": "other"}'])
def test_a_report_that_was_cut_off_reads_as_running(tmp_path: Path, text: str) -> None:
    path = tmp_path / "device0.json"
    path.write_text(text)
    report = read_report(path)
    assert (report.state, report.alive) == (State.RUNNING, False)
