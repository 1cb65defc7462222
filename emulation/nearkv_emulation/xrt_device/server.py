# SPDX-License-Identifier: Apache-2.0
"""The loop of the device process: connections, messages, and time for the kernels while no message is there.

Two ways to meet the host. *Attach*: the host connects to our socket, as often as it opens the device, one at a time.
*Launch*: the host started us and waits at its socket; one connection is all.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nearkv_emulation.xrt_device import frames
from nearkv_emulation.xrt_device.card import EmulatedBoard, Plan
from nearkv_emulation.xrt_device.host_link import HostLink
from nearkv_emulation.xrt_device.model import MemoryFault, ModelMaker
from nearkv_emulation.xrt_device.p2p_files import P2pFiles
from nearkv_emulation.xrt_device.session import Session
from nearkv_emulation.xrt_device.wire import ProtocolError

_log = logging.getLogger(__name__)
_SLICE_S = 0.002  # how long kernels work before the sockets are looked at again
_CONNECT_EVERY_S = 0.05
_CONNECT_FOR_S = 300.0  # as long as the host waits


class DeviceFailed(Exception):
    """The device can no longer answer, or the host left without closing it."""


class Ended(Exception):
    """Whoever started the process has gone: there is nobody to answer for."""


@dataclass(frozen=True)
class Server:
    """The card and where its files may lie. `lifeline`: a pipe that closes when the process is to end."""

    plan: Plan
    makers: Mapping[str, ModelMaker]
    places: tuple[Path, ...]
    lifeline: int | None = None

    def attach(self, listener: socket.socket, path: Path, told: Callable[[Mapping[str, Any]], None]) -> None:
        """Serves whoever connects until the lifeline closes. `told` gets the counters of each device that was closed.

        Raises DeviceFailed, Ended.
        """
        while True:
            self._wait([listener])
            connection, _ = listener.accept()
            with connection:
                told(self._serve(connection, path, listener))

    def launch(self, path: Path) -> Mapping[str, Any]:
        """Connects to the host's socket and serves one session. Raises DeviceFailed, Ended."""
        deadline = time.monotonic() + _CONNECT_FOR_S
        while True:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.connect(str(path))
                break
            except OSError as error:
                sock.close()
                if time.monotonic() > deadline:
                    raise DeviceFailed(f"no host at {path}: {error.strerror}") from error
                self._wait([], _CONNECT_EVERY_S)
        with sock:
            return self._serve(sock, path, None)

    def _serve(self, connection: socket.socket, path: Path, listener: socket.socket | None) -> Mapping[str, Any]:
        """One session from the first message to Close; its counters."""
        host = HostLink.beside(path)
        with ExitStack() as stack:
            stack.callback(host.close)
            files = stack.enter_context(P2pFiles(self.places))
            board = stack.enter_context(EmulatedBoard(self.plan, self.makers, files, host))
            session = Session(board)
            _log.info("a host has opened the device")
            try:
                while not session.closed:
                    self._next(connection, listener, board)
                    call, message = frames.receive(connection)
                    host.try_connect()
                    frames.reply(connection, session.answer(call, message))
            except Ended:
                raise DeviceFailed("ended while a host had the device open") from None
            except frames.Closed:
                raise DeviceFailed("the host ended without closing the device") from None
            except (ProtocolError, MemoryFault) as error:
                raise DeviceFailed(str(error)) from error
            except OSError as error:
                raise DeviceFailed(f"the connection to the host: {error.strerror or error}") from error
            host.farewell()
            _log.info("closed properly")
            starts = {unit.name: unit.starts for unit in board.units}
            return {**asdict(session.counters), "starts": starts}

    def _next(self, connection: socket.socket, listener: socket.socket | None, board: EmulatedBoard) -> None:
        """Returns when there is something to read from the host; kernels work meanwhile."""
        watched = [connection] if listener is None else [connection, listener]
        while True:
            ready = self._wait(watched, 0.0 if board.busy else None)
            if listener in ready:
                raise DeviceFailed("a second device was opened in attach mode; start with --devices 2 for two")
            if ready:
                return
            try:
                board.advance(_SLICE_S)
            except Exception as error:
                raise DeviceFailed(f"the kernel failed: {error}") from error

    def _wait(self, sockets: list[socket.socket], timeout_s: float | None = None) -> list[socket.socket]:
        watched = [sock.fileno() for sock in sockets]
        ready = select.select(watched if self.lifeline is None else [*watched, self.lifeline], [], [], timeout_s)[0]
        if self.lifeline in ready:
            raise Ended
        return [sock for sock in sockets if sock.fileno() in ready]
