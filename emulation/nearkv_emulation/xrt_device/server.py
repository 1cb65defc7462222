# SPDX-License-Identifier: Apache-2.0
"""The loop of the device process: messages of one host after the other, and time for the kernels between messages."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nearkv_emulation.xrt_device import frames
from nearkv_emulation.xrt_device.card import EmulatedBoard, Plan, UnitFailed
from nearkv_emulation.xrt_device.host_link import HostLink
from nearkv_emulation.xrt_device.meeting import Ended, Lifeline, Orphaned, peer
from nearkv_emulation.xrt_device.model import MemoryFault, ModelMaker
from nearkv_emulation.xrt_device.p2p_files import P2pFiles
from nearkv_emulation.xrt_device.session import Session
from nearkv_emulation.xrt_device.wire import ProtocolError

_log = logging.getLogger(__name__)
_SLICE_S = 0.002  # how long kernels work before the sockets are looked at again


class DeviceFailed(Exception):
    """The device can no longer answer."""


class HostLost(Exception):
    """The host left without closing the device."""


@dataclass(frozen=True)
class Server:
    """The card, where files of P2P buffers may lie, and what ends the process."""

    plan: Plan
    makers: Mapping[str, ModelMaker]
    places: tuple[Path, ...]
    lifeline: Lifeline

    def serve(self, connection: socket.socket, path: Path, others: socket.socket | None = None) -> Mapping[str, Any]:
        """One host, connected at `path`, from its first message to Close, on a card of its own; its counters.

        `others`: becomes readable when a second host comes, for which there is no card. Raises DeviceFailed, HostLost.
        """
        host = HostLink.beside(path)
        with ExitStack() as stack:
            stack.enter_context(connection)
            stack.callback(host.close)
            files = stack.enter_context(P2pFiles(self.places))
            board = stack.enter_context(EmulatedBoard(self.plan, self.makers, files, host))
            session = Session(board)
            _log.info("a host has opened the device")
            try:
                while not session.closed:
                    self._until_message(connection, others, board)
                    call, message = frames.receive(connection)
                    host.try_connect()
                    frames.reply(connection, session.answer(call, message))
            except Orphaned:
                # Its library would spin for ever on the closed socket, and whoever would have ended it is gone.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(peer(connection), signal.SIGKILL)
                raise HostLost("ended, and with it the host, since whoever started them has gone") from None
            except Ended:
                raise DeviceFailed("told to end while a host had the device open") from None
            except (frames.Closed, ConnectionError) as error:
                inside = f", inside a message: {error}" if isinstance(error, frames.Closed) and str(error) else ""
                raise HostLost(f"the host ended without closing the device{inside}") from error
            except (ProtocolError, MemoryFault, UnitFailed, OSError) as error:
                raise DeviceFailed(str(error)) from error
            host.farewell()
            _log.info("closed properly")
            return {**asdict(session.counters), "starts": {unit.name: unit.starts for unit in board.units}}

    def _until_message(self, connection: socket.socket, others: socket.socket | None, board: EmulatedBoard) -> None:
        """Returns when the host has sent something; kernels work meanwhile."""
        watched = [connection] if others is None else [connection, others]
        while not (ready := self.lifeline.wait(watched, 0.0 if board.busy else None)):
            board.advance(_SLICE_S)
        # A host that has gone may still be in the way of the next one: what it said, its end included, goes first.
        if connection not in ready:
            raise DeviceFailed("a second device was opened, and in attach mode there is one; give --devices 2")
