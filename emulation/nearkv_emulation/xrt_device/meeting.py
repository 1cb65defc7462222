# SPDX-License-Identifier: Apache-2.0
"""How device process and host find each other at the path of the first socket. Passes no messages.

*Attach*: we listen and hosts connect, one after the other. *Launch*: the host has started us and listens. The host's
library removes the path whenever it closes a device, and when it opens one and nobody listens it takes the path for
itself and waits; so an attached device looks after the path and takes either side.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from pathlib import Path

_LOOK_EVERY_S = 0.02
_LAUNCH_FOR_S = 300.0  # as long as the host waits


class Ended(Exception):
    """The process was told to end."""


class Orphaned(Ended):
    """Whoever started the process has gone."""


class NoHost(Exception):
    """A launched device found no host."""


class Lifeline:
    """What ends the process between two messages: `end`, from a signal handler too, and the end of the descriptor
    `fd`, which whoever started the process holds open. A context manager."""

    def __init__(self, fd: int | None = None) -> None:
        self._fd = fd
        self._told, self._tell = os.pipe()

    def __enter__(self) -> Lifeline:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._told)
        os.close(self._tell)

    def end(self) -> None:
        os.write(self._tell, b".")

    def wait(self, sockets: list[socket.socket], timeout_s: float | None = None) -> list[socket.socket]:
        """Those of `sockets` that can be read. Raises Ended, Orphaned."""
        watched = [*(sock.fileno() for sock in sockets), self._told]
        ready = select.select(watched if self._fd is None else [*watched, self._fd], [], [], timeout_s)[0]
        found = [sock for sock in sockets if sock.fileno() in ready]
        # What a host has said, its end included, goes first.
        if not found and self._fd in ready:
            raise Orphaned
        if not found and self._told in ready:
            raise Ended
        return found


class AttachPoint:
    """A socket at `path` that hosts connect to. A context manager: the path goes."""

    def __init__(self, path: Path, lifeline: Lifeline, fd: int | None = None) -> None:
        """`fd`: a socket that listens at `path` already."""
        self.path = path
        self._lifeline = lifeline
        self._early = None if fd is not None else _connect(path)
        if fd is not None:
            self._listener, self._inode = socket.socket(fileno=fd), _inode(path)
        else:
            if self._early is None:
                path.unlink(missing_ok=True)  # left by a process that is gone
            self._listener, self._inode = self._listen()

    def __enter__(self) -> AttachPoint:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.path.unlink(missing_ok=True)

    @property
    def listener(self) -> socket.socket:
        """Readable when one more host has come."""
        return self._listener

    def meet(self) -> socket.socket:
        """The next host. Raises Ended."""
        if self._early is not None:
            host, self._early = self._early, None
            return host
        while not self._lifeline.wait([self._listener], _LOOK_EVERY_S):
            found = _inode(self.path)
            if found is None:
                self._listener.close()
                self._listener, self._inode = self._listen()
            elif found != self._inode:
                waiting = _connect(self.path)
                if waiting is not None:
                    return waiting
        return self._listener.accept()[0]

    def _listen(self) -> tuple[socket.socket, int | None]:
        """A new listener and its inode, in place unless a host has taken the path meanwhile."""
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        scratch = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        scratch.unlink(missing_ok=True)
        try:
            listener.bind(str(scratch))
            listener.listen()
            scratch.chmod(0o600)
            with contextlib.suppress(FileExistsError):
                os.link(scratch, self.path)
            return listener, _inode(scratch)
        except OSError:
            listener.close()
            raise
        finally:
            scratch.unlink(missing_ok=True)


def launched(path: Path, lifeline: Lifeline) -> socket.socket:
    """The host that waits at `path`, or will in a moment. Raises NoHost, Ended."""
    deadline = time.monotonic() + _LAUNCH_FOR_S
    while (host := _connect(path)) is None:
        if time.monotonic() > deadline:
            raise NoHost(f"no host waits at {path}")
        lifeline.wait([], _LOOK_EVERY_S)
    return host


def peer(sock: socket.socket) -> int:
    """The process at the other end."""
    size = struct.calcsize("3i")
    pid: int = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0]
    return pid


def _inode(path: Path) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None


def _connect(path: Path) -> socket.socket | None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(str(path))
    except OSError:
        sock.close()
        return None
    return sock
