# SPDX-License-Identifier: Apache-2.0
"""One run from start to end: prepare, start, watch, judge. The parts are in the modules beside this one.

A program's exit status alone does not say that all went well: with some versions of XRT it is 0 after the device died.
So the reports of the device processes are read too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from nearkv_driver.errors import DriverError, TransportUnavailable
from nearkv_driver.xclbin import Design

from nearkv_emulation.xrt_device.card import Plan
from nearkv_emulation.xrt_device.kernels import KINDS, makers, prepare
from nearkv_emulation.xrt_device.report import Report, State, read_report
from nearkv_emulation.xrt_run import run_folder
from nearkv_emulation.xrt_run.design import default_design
from nearkv_emulation.xrt_run.installation import Installation, find_installation
from nearkv_emulation.xrt_run.preload import preload_library
from nearkv_emulation.xrt_run.processes import AttachedDevice, HostProgram, Outcome
from nearkv_emulation.xrt_run.run_folder import RunFolder, RunFolders

DEVICES_MAX = 16
_SETTLE_S = 10.0  # for launched devices to notice that their host has gone


class EmulationFailed(DriverError):
    """A device process died or was not closed properly, or the program had to be ended; `status` is the program's."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Options:
    """What to emulate. xclbin: None for a SmartSSD with one unit of our kernel. attach: None for what fits `devices`.

    models: models of other kernels as NAME=MODULE:FUNCTION. keep: leave the run's folder in place.
    """

    kernel: str = "hls"
    devices: int = 1
    xclbin: Path | None = None
    models: tuple[str, ...] = ()
    attach: bool | None = None
    timeout_s: float | None = None
    keep: bool = False

    def __post_init__(self) -> None:
        if self.kernel not in KINDS:
            raise ValueError(f"kernel {self.kernel!r}; allowed are {', '.join(KINDS)}")
        if not 1 <= self.devices <= DEVICES_MAX:
            raise ValueError(f"devices {self.devices}; 1 to {DEVICES_MAX} are possible")
        if self.attach and self.devices > 1:
            raise ValueError(f"attach mode has one device, not {self.devices}; leave it out")
        if self.timeout_s is not None and not self.timeout_s > 0:  # NaN too
            raise ValueError(f"timeout {self.timeout_s}; it must be above 0")


@dataclass(frozen=True)
class Finished:
    """How a run ended: the program's exit status, the devices' reports, what is wrong with them beside a program that
    failed itself, and the folder if it was kept."""

    status: int
    reports: tuple[Report, ...]
    trouble: str = ""
    folder: Path | None = None


def emulate(
    command: Sequence[str],
    options: Options,
    environ: Mapping[str, str] | None = None,
    installation: Installation | None = None,
    started: Callable[[RunFolder], None] = lambda folder: None,
) -> Finished:
    """Runs `command` with `options.devices` cards behind XRT; `environ` defaults to this process's own.

    `started` is called when the program runs. The calling thread waits for the program, which is killed if it dies.
    Raises ValueError (XclbinError among them), also when the program cannot be started; TransportUnavailable;
    EmulationFailed.
    """
    if not command:
        raise ValueError("no command to run")
    base = dict(os.environ if environ is None else environ)
    found = installation or find_installation(base, uid=os.getuid())
    preload = preload_library()
    if options.xclbin is not None:
        Plan.read(options.xclbin).require_models(makers(options.kernel, options.models))
    prepare(options.kernel)
    attach = options.devices == 1 if options.attach is None else options.attach
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolders(options.keep))
        try:
            xclbin = _xclbin(folder, options)
            plan = Plan.read(xclbin)
            device = folder.device_command(xclbin, options.kernel, options.models)
            run_folder.prepare(folder, found, plan.design, options.devices, None if attach else device)
        except OSError as error:
            raise TransportUnavailable(f"the run's folder {folder.path} cannot be filled: {error.strerror}") from error
        variables = run_folder.environment(folder, found, base, xclbin, preload, attach)
        attached = [_attached(device, folder, base)] if attach else []
        outcome = _run(command, variables, folder, attached, options.timeout_s, started)
        reports = _reports(folder)
        trouble = _judge(outcome, reports, folder)
        return Finished(outcome.status, reports, trouble, folder.path if options.keep else None)


def _run(
    command: Sequence[str],
    variables: Mapping[str, str],
    folder: RunFolder,
    attached: Sequence[AttachedDevice],
    timeout_s: float | None,
    started: Callable[[RunFolder], None],
) -> Outcome:
    with ExitStack() as stack:
        for device in attached:
            stack.enter_context(device)
        program = stack.enter_context(HostProgram(command, variables))
        started(folder)
        outcome = program.watch(lambda: _trouble(folder, attached), timeout_s)
        if not outcome.trouble:
            _until_settled(folder, [device.name for device in attached])
        return outcome


def _attached(command: Sequence[str], folder: RunFolder, base: Mapping[str, str]) -> AttachedDevice:
    environ = {**base, "PYTHONPATH": run_folder.python_path()}
    name = folder.meeting.name
    line = [*command, "--listen", str(folder.meeting), "--report", str(folder.reports / f"{name}.json")]
    with folder.listener() as listener, folder.log.open("ab") as log:
        return AttachedDevice(name, line, environ, listener.fileno(), log.fileno())


def _trouble(folder: RunFolder, attached: Sequence[AttachedDevice]) -> str:
    """What is wrong with the devices of a program that still runs; empty when nothing is."""
    for device in attached:
        if device.ended is not None:
            return _said(_reports(folder)) or f"the device process ended with status {device.ended}"
    return _said(_reports(folder))


def _said(reports: Sequence[Report], states: tuple[State, ...] = (State.FAILED,)) -> str:
    """The first device that ended in one of the states, or did not live to say how."""
    for report in reports:
        if report.state in states:
            return f"device {report.name}: {report.message}"
        if report.state is State.RUNNING and not report.alive:
            return f"device {report.name}: its process was killed or crashed"
    return ""


def _reports(folder: RunFolder) -> tuple[Report, ...]:
    return tuple(read_report(path) for path in sorted(folder.reports.glob("*.json")))


def _until_settled(folder: RunFolder, attached: Sequence[str]) -> None:
    """Launched devices see the end of their host and end too; nobody waits for them but us."""
    deadline = time.monotonic() + _SETTLE_S
    while time.monotonic() < deadline:
        if not any(report.alive and report.name not in attached for report in _reports(folder)):
            return
        time.sleep(0.01)


def _judge(outcome: Outcome, reports: Sequence[Report], folder: RunFolder) -> str:
    """Raises EmulationFailed where a device failed, or the program claims success and has not closed one. A program
    that failed itself keeps its status; what it left open is returned."""
    alive = [report.name for report in reports if report.alive]
    trouble = outcome.trouble or _said(reports) or (f"device {alive[0]}: its process has not ended" if alive else "")
    lost = _said(reports, (State.LOST,))
    if trouble or (lost and outcome.status == 0):
        raise EmulationFailed(f"{trouble or lost}{_log_end(folder)}", status=outcome.status)
    return lost


def _log_end(folder: RunFolder) -> str:
    """The last line that a device process wrote, when it is no line of the ordinary course."""
    try:
        lines = folder.log.read_text(errors="replace").split("\n")
    except OSError:
        return ""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return "" if not last or last.startswith("nearkv-xrt-device:") else f" ({last})"


def _xclbin(folder: RunFolder, options: Options) -> Path:
    if options.xclbin is not None:
        return options.xclbin.resolve()
    path = folder.path / "nearkv.xclbin"
    design: Design = default_design()
    path.write_bytes(design.container(b"no bitstream: this file is for emulation\n").pack())
    return path
