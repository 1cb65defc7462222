# SPDX-License-Identifier: Apache-2.0
"""Whoever dies in the middle of a run, the others end in time, and the run says who it was."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from nearkv_driver.errors import TransportUnavailable
from nearkv_emulation.xrt_device.report import State, read_report
from nearkv_emulation.xrt_run import run_folder
from nearkv_emulation.xrt_run.emulate import EmulationFailed, Finished, Options, emulate
from nearkv_emulation.xrt_run.run_folder import RunFolder

from tests.support import cli, xrt_toy
from tests.support.processes import require_ended
from tests.support.xrt import installation, program

_END_S = 60.0  # a process that is to end has so long on a busy machine
MODES = pytest.mark.parametrize("attach", [True, False], ids=["attach", "launch"])


class Scene:
    """A program that holds the device open, and what is to happen to it as soon as it does."""

    def __init__(self, folder: Path) -> None:
        self.pipe = folder / "pipe"
        os.mkfifo(self.pipe)
        self.xclbin = xrt_toy.write_xclbin(folder)
        self.host = self.device = 0
        self.run: RunFolder | None = None

    def line(self, check: str = "hold") -> list[str]:
        return [str(program("buffers")), str(self.xclbin), str(self.pipe), check]

    def options(self, attach: bool = True, **others: float) -> Options:
        return Options(xclbin=self.xclbin, models=xrt_toy.MODELS, attach=attach, **others)  # type: ignore[arg-type]

    def wait(self) -> None:
        """Until the program works on the device; who is who."""
        self.host = int(self.pipe.read_text())

    def emulate(self, attach: bool, act: Callable[[], None]) -> Finished:
        """Runs the program and does `act` while it works."""

        def watch(folder: RunFolder) -> None:
            self.run = folder
            self.wait()
            (report,) = folder.reports.glob("*.json")
            self.device = read_report(report).pid
            act()

        def started(folder: RunFolder) -> None:
            threading.Thread(target=watch, args=(folder,), daemon=True).start()

        options = self.options(attach, timeout_s=_END_S)
        return emulate(self.line(), options, installation=installation(), started=started)

    def require_gone(self) -> None:
        for pid in (self.host, self.device):
            assert pid
            require_ended(pid)
        assert self.run is not None
        assert not self.run.path.exists()
        assert self.run.shared is None or not self.run.shared.exists()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    program("buffers")
    return Scene(tmp_path)


@MODES
def test_a_killed_device_ends_the_run(scene: Scene, attach: bool) -> None:
    """The host's library spins for ever on the closed socket, so the program is ended for it."""
    with pytest.raises(EmulationFailed, match="its process was killed or crashed"):
        scene.emulate(attach, lambda: os.kill(scene.device, signal.SIGKILL))
    scene.require_gone()


@MODES
def test_a_killed_host_ends_the_device(scene: Scene, attach: bool) -> None:
    finished = scene.emulate(attach, lambda: os.kill(scene.host, signal.SIGKILL))
    assert finished.status == 128 + signal.SIGKILL
    assert "the host ended without closing the device" in finished.trouble
    scene.require_gone()


@MODES
def test_a_host_that_leaves_the_device_open_has_failed(scene: Scene, attach: bool) -> None:
    with pytest.raises(EmulationFailed, match="the host ended without closing the device") as caught:
        emulate(scene.line("leave"), scene.options(attach, timeout_s=_END_S), installation=installation())
    assert caught.value.status == 0


@MODES
def test_a_host_that_crashes_takes_nobody_along(scene: Scene, attach: bool) -> None:
    """Its library signals its whole process group: not ours, and a launched device in it still cleans up."""
    finished = emulate(scene.line("crash"), scene.options(attach, timeout_s=_END_S), installation=installation())
    assert finished.status != 0
    # Some crashing hosts still get to close their device.
    assert finished.reports[0].state in (State.CLOSED, State.LOST)


@MODES
def test_a_kernel_that_fails_ends_the_run_with_its_words(scene: Scene, attach: bool) -> None:
    with pytest.raises(EmulationFailed, match="unit add_hs_1: ValueError: nothing to add to"):
        emulate(scene.line("impossible"), scene.options(attach, timeout_s=_END_S), installation=installation())


def test_a_program_that_takes_too_long_is_killed(scene: Scene) -> None:
    with pytest.raises(EmulationFailed, match=r"the program has not ended within 0\.5 s"):
        emulate(["sleep", "1000"], scene.options(timeout_s=0.5), installation=installation())


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_signalled_run_takes_program_and_device_along(
    scene: Scene, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    line = ["xrt-emulate", "--xclbin", str(scene.xclbin), "--keep", "--timeout", str(_END_S)]
    for model in xrt_toy.MODELS:
        line += ["--model", model]
    # The program is run by a shell, so that it is no child of the run.
    shell = f"{' '.join(scene.line())}; exit $?"
    with cli.start(tmp_path, *line, "--", "sh", "-c", shell) as run:
        scene.wait()
        variables = dict(v.split("=", 1) for v in Path(f"/proc/{scene.host}/environ").read_text().split("\0") if v)
        folder = Path("/tmp", variables["USER"])
        device = read_report(folder / "reports/attached.json").pid
        run.send_signal(number)
        _, said = run.communicate(timeout=_END_S)
    assert run.returncode == code, said
    require_ended(scene.host)
    require_ended(device)
    (folder / "kept").unlink(missing_ok=True)
    run_folder.sweep()
    assert not folder.exists()


def test_a_killed_run_leaves_no_program_that_never_opened_a_device(scene: Scene, tmp_path: Path) -> None:
    line = ["xrt-emulate", "--xclbin", str(scene.xclbin), "--timeout", str(_END_S)]
    for model in xrt_toy.MODELS:
        line += ["--model", model]
    with cli.start(tmp_path, *line, "--", "sh", "-c", f"echo $$ > {scene.pipe}; exec sleep 1000") as run:
        scene.wait()
        run.kill()
        run.communicate(timeout=_END_S)
    require_ended(scene.host)
    run_folder.sweep()


def test_a_full_tmp_is_named_and_nothing_stays(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def full(folder: RunFolder, *_: object) -> None:
        made.append(folder.path)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run_folder, "prepare", full)
    with pytest.raises(TransportUnavailable, match=r"folder /tmp/nearkv-xrt-\w+ cannot be filled: No space left"):
        emulate(["true"], scene.options(), installation=installation())
    assert not made[0].exists()
