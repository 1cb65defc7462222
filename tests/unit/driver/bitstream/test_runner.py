# SPDX-License-Identifier: Apache-2.0
"""Running steps: logs, errors out of logs, known failures, and that nothing is left running."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from nearkv_driver.bitstream.commands import Step
from nearkv_driver.bitstream.errors import StepFailed
from nearkv_driver.bitstream.failures import hint, last_errors
from nearkv_driver.bitstream.runner import Runner


def step(folder: Path, script: str, name: str = "link") -> Step:
    return Step(name, ("/bin/sh", "-c", script), folder / "output")


def run(folder: Path, *steps: Step) -> list[str]:
    heard: list[str] = []
    Runner(folder, {"PATH": "/usr/bin:/bin", "MARK": "seen"}).run(steps, lambda s, log: heard.append(s.name))
    return heard


def test_commands_and_output_are_logged(tmp_path: Path) -> None:
    heard = run(
        tmp_path, step(tmp_path, 'echo "$MARK"; pwd; echo bad >&2; touch output', "a"), step(tmp_path, ":", "b")
    )
    assert heard == ["a", "b"]
    assert (tmp_path / "logs" / "1-a.log").read_text() == f"seen\n{tmp_path}\nbad\n"
    lines = (tmp_path / "commands.log").read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["a:", "a:", "b:", "b:"]
    assert "/bin/sh -c 'echo \"$MARK\"; pwd; echo bad >&2; touch output'" in lines[0]
    assert "a: exit code 0 after" in lines[1]


def test_a_failure_names_step_code_log_and_last_errors(tmp_path: Path) -> None:
    script = 'for i in 1 2 3 4 5 6 7; do echo "ERROR: [VPL 60-$i] no $i"; echo INFO: more; done; exit 9'
    with pytest.raises(
        StepFailed, match=r"step link failed with exit code 9; log: .*1-link.log; last: ERROR.*no 7"
    ) as e:
        run(tmp_path, step(tmp_path, script))
    assert [line.rsplit(" ", 1)[1] for line in e.value.lines] == ["3", "4", "5", "6", "7"]
    assert (e.value.step, e.value.exit_code, e.value.log) == ("link", 9, tmp_path / "logs" / "1-link.log")


def test_later_steps_do_not_run(tmp_path: Path) -> None:
    with pytest.raises(StepFailed):
        run(tmp_path, step(tmp_path, "exit 1"), step(tmp_path, "touch ran"))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("exit 0", r"step link failed with exit code 0.*output was not written"),
        ("kill -9 $$", "step link was ended by signal 9"),
        ("echo only this; exit 2", "exit code 2; .*last: only this"),
        ("exit 2", r"exit code 2; log: \S+$"),
    ],
)
def test_how_a_step_can_end(tmp_path: Path, script: str, text: str) -> None:
    with pytest.raises(StepFailed, match=text):
        run(tmp_path, step(tmp_path, script))


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match=r"exit code 127.*/nowhere/v\+\+ cannot be started: .*No such file"):
        run(tmp_path, Step("link", ("/nowhere/v++",), tmp_path / "output"))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("ERROR: [v++ 60-704] cf2sw failed", "Vitis_Accel_Examples #85"),
        ("cannot open sched_v30.bin", "vendor's XRT package"),
        ("write failed: No space left on device", "file system"),
    ],
)
def test_failures_that_others_met_come_with_advice(tmp_path: Path, line: str, text: str) -> None:
    with pytest.raises(StepFailed, match=text):
        run(tmp_path, step(tmp_path, f"echo '{line}'; exit 1"))


def test_a_huge_log_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"ERROR: old\n" + b"x" * 3_000_000 + b"\n\xff\xfeERROR no\nERROR: new\n")
    assert last_errors(log) == ("ERROR: new",)
    assert hint(log) == ""


def test_an_interrupt_ends_the_tool_and_what_it_started(tmp_path: Path) -> None:
    """Ctrl-C in hour five: v++ has started Vivado, and both must go. They hold a pipe that ends when both have."""
    os.mkfifo(tmp_path / "alive")
    started = threading.Event()
    ended = threading.Event()

    def watch() -> None:
        with (tmp_path / "alive").open() as pipe:
            pipe.readline()
            started.set()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            pipe.read()
            ended.set()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, step(tmp_path, "exec 3>alive; sleep 600 & echo started >&3; wait"))
    finally:
        signal.signal(signal.SIGINT, previous)
    assert started.is_set()
    assert ended.wait(60), "a process of the step is still alive"
    assert "link: interrupted" in (tmp_path / "commands.log").read_text()
