# SPDX-License-Identifier: Apache-2.0
"""The second socket, on which the device asks the host: memory of the host, and a farewell at the end.

Here the host listens, and it begins to some time after the first socket is connected; `try_connect` may be called
until it works.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path

from nearkv_emulation.xrt_device.frames import request
from nearkv_emulation.xrt_device.messages import Call
from nearkv_emulation.xrt_device.model import MemoryFault
from nearkv_emulation.xrt_device.wire import Fields, ProtocolError, pack

_REPLY = struct.Struct("<BQBI")
_TIMEOUT_S = 30.0
_PACKET_NBYTES = 64 << 10


class HostLink:
    """Memory of the host as `Memory`; raises MemoryFault where the host does not answer for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket: socket.socket | None = None

    @classmethod
    def beside(cls, path: Path) -> HostLink:
        """The link that belongs to the first socket at `path`."""
        return cls(path.with_name(f"D2X_unix_sock_{path.name}"))

    def try_connect(self) -> bool:
        """Whether the link stands now."""
        if self._socket is None:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.connect(str(self._path))
            except OSError:
                sock.close()
                return False
            sock.settimeout(_TIMEOUT_S)
            self._socket = sock
        return True

    def read(self, address: int, nbytes: int) -> bytes:
        out = bytearray()
        while len(out) < nbytes:
            part = min(_PACKET_NBYTES, nbytes - len(out))
            fields = self._ask(Call.READ_HOST, pack([(1, address + len(out)), (2, part)]), address)
            data = fields.data(2)
            if len(data) != part:
                raise MemoryFault(f"the host gave {len(data)} of {part} bytes at {address + len(out):#x}")
            out += data
        return bytes(out)

    def write(self, address: int, data: bytes | memoryview) -> None:
        for at in range(0, len(data), _PACKET_NBYTES):
            part = data[at : at + _PACKET_NBYTES]
            self._ask(Call.WRITE_HOST, pack([(1, address + at), (2, len(part)), (3, part)]), address)

    def farewell(self) -> None:
        """Tells the host's listener that there is nothing more to come; else closing takes it seconds."""
        if self._socket is not None:
            with contextlib.suppress(OSError):  # the host may have gone before it could be told
                request(self._socket, Call.CLOSE, b"")
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        # The host leaves the socket behind; a later process with the same number would trip over it.
        self._path.unlink(missing_ok=True)

    def _ask(self, call: Call, message: bytes, address: int) -> Fields:
        if not self.try_connect() or self._socket is None:
            raise MemoryFault(f"{address:#x} is memory of the host, which does not listen at {self._path}")
        try:
            request(self._socket, call, message)
            size = _REPLY.unpack(_exactly(self._socket, _REPLY.size))[1]
            fields = Fields.parse(_exactly(self._socket, size))
        except (OSError, ProtocolError) as error:
            raise MemoryFault(f"memory of the host at {address:#x}: {error}") from error
        if not fields.number(1, 0):
            raise MemoryFault(f"the host refuses {call.name} at {address:#x}")
        return fields


def _exactly(sock: socket.socket, nbytes: int) -> bytes:
    data = bytearray()
    while len(data) < nbytes:
        part = sock.recv(nbytes - len(data))
        if not part:
            raise ProtocolError(f"the host closed after {len(data)} of {nbytes} bytes")
        data += part
    return bytes(data)
