# SPDX-License-Identifier: Apache-2.0
"""The command `nearkv-xrt-device`: options in, exit code out. The work is in `server`.

Exit codes: 0 every host that opened the device has closed it, 2 bad option or file, 3 the device failed or a host left
without closing it.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nearkv_driver.errors import TransportUnavailable

from nearkv_emulation.xrt_device.card import Plan
from nearkv_emulation.xrt_device.kernels import KINDS, makers
from nearkv_emulation.xrt_device.meeting import AttachPoint, Ended, Lifeline, NoHost, launched
from nearkv_emulation.xrt_device.report import ReportFile, State
from nearkv_emulation.xrt_device.server import DeviceFailed, HostLost, Server

BAD_INPUT, FAILED = 2, 3
_SHM = Path("/dev/shm")  # memory that is no disk's: what a drive reads into a P2P buffer is not written back anywhere


def parser() -> argparse.ArgumentParser:
    """The options of `nearkv-xrt-device`."""
    parser = argparse.ArgumentParser(
        prog="nearkv-xrt-device",
        description="The device behind XRT's hardware emulation. `nearkv xrt-emulate` starts it; docs/xrt-emulation.md",
    )
    parser.add_argument("--xclbin", type=Path, required=True, help="which banks and compute units the card has")
    parser.add_argument("--kernel", choices=KINDS, default="hls", help="what computes nearkv_attend")
    parser.add_argument(
        "--model", action="append", default=[], metavar="NAME=MODULE:FUNCTION", help="a model of another kernel"
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--listen", type=Path, metavar="SOCKET", help="attach mode: make this socket and wait there")
    where.add_argument("--connect", type=Path, metavar="SOCKET", help="launch mode: the socket at which the host waits")
    parser.add_argument("--listen-fd", type=int, help="with --listen: the socket is open already, as this descriptor")
    parser.add_argument("--lifeline-fd", type=int, help="end when this descriptor is at its end")
    parser.add_argument("--p2p-folder", type=Path, action="append", help="where files of P2P buffers may lie")
    parser.add_argument("--report", type=Path, help="a JSON file that says how it went")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves one device until its host has gone. Returns the exit code; what is wrong goes to stderr and the report."""
    logging.basicConfig(level=logging.INFO, format="nearkv-xrt-device: %(message)s", stream=sys.stderr)
    log = logging.getLogger(__name__)
    options = parser().parse_args(arguments)
    with ExitStack() as stack:
        lifeline = stack.enter_context(Lifeline(options.lifeline_fd))
        previous = signal.signal(signal.SIGTERM, lambda number, frame: lifeline.end())
        stack.callback(signal.signal, signal.SIGTERM, previous)
        report: ReportFile | None = None
        if options.report is not None:
            report = ReportFile(options.report)
            stack.callback(report.close)
        tally = _Tally(report)
        try:
            places = tuple(options.p2p_folder or (_SHM, Path(tempfile.gettempdir())))
            plan, models = Plan.read(options.xclbin), makers(options.kernel, options.model)
            plan.require_models(models)
            server = Server(plan, models, places, lifeline)
            if options.connect is not None:
                _outlive_host()
                tally.add(server.serve(launched(options.connect, lifeline), options.connect))
            else:
                point = stack.enter_context(AttachPoint(options.listen, lifeline, options.listen_fd))
                while True:
                    host = point.meet()
                    try:
                        tally.add(server.serve(host, point.path, point.listener))
                    except HostLost as error:  # the next one may do better
                        log.error("%s", error)
                        tally.lost = str(error)
        except Ended:
            pass
        except (ValueError, TransportUnavailable) as error:
            log.error("%s", error)
            tally.end(State.FAILED, str(error))
            return BAD_INPUT
        except (DeviceFailed, HostLost, NoHost, OSError) as error:
            log.error("%s", error)
            tally.end(State.LOST if isinstance(error, HostLost) else State.FAILED, str(error))
            return FAILED
        tally.end(State.LOST if tally.lost else State.CLOSED, tally.lost)
        return FAILED if tally.lost else 0


class _Tally:
    """Sessions so far, and the report about them. `lost`: how the last host went that did not close the device."""

    def __init__(self, report: ReportFile | None) -> None:
        self.lost = ""
        self._report = report
        self._sessions: list[Mapping[str, Any]] = []

    def add(self, counters: Mapping[str, Any]) -> None:
        self._sessions.append(counters)
        self._write(State.RUNNING)

    def end(self, state: State, message: str = "") -> None:
        self._write(state, message)

    def _write(self, state: State, message: str = "") -> None:
        if self._report is not None:
            self._report.write(state, message, {"sessions": self._sessions})


def _outlive_host() -> None:
    """A crashing host signals its whole process group, and a launched device must be in that group: the host waits
    for its end there. So what is sent is ignored; a fault of this process still ends it, as the kernel sees to."""
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
