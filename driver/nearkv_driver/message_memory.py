# SPDX-License-Identifier: Apache-2.0
"""Card memory for one message and its reply, which grows as needed. Moves bytes; knows no register and no job."""

from __future__ import annotations

from nearkv_driver.decode import POISON
from nearkv_driver.encode import Message
from nearkv_driver.transport import Buffer, Transport

_FIRST_NBYTES = 1 << 16


class MessageMemory:
    """One buffer in the bank of m_axi_ctl and one in that of m_axi_out; what is in use must not be replaced."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._masters = transport.info().masters
        self._ctl: Buffer | None = None
        self._out: Buffer | None = None

    def reserve(self, nbytes: int, reply_nbytes: int) -> tuple[int, int]:
        """Device addresses for a message and a reply of these sizes."""
        self._ctl = self._at_least(self._ctl, nbytes, "ctl")
        self._out = self._at_least(self._out, reply_nbytes, "out")
        return self._ctl.address, self._out.address

    def send(self, message: Message) -> None:
        """The message, and poison where its reply will be."""
        ctl, out = self._ctl, self._out
        assert ctl is not None
        assert out is not None
        ctl.write(message.data.data)
        ctl.sync_to_device(message.nbytes)
        out.write(bytes([POISON]) * message.reply_nbytes)
        out.sync_to_device(message.reply_nbytes)

    def receive(self, nbytes: int) -> bytes:
        """The first `nbytes` bytes of the reply as they are now."""
        assert self._out is not None
        self._out.sync_from_device(nbytes)
        return self._out.read(nbytes)

    def _at_least(self, buffer: Buffer | None, nbytes: int, master: str) -> Buffer:
        if buffer is not None and buffer.nbytes >= nbytes:
            return buffer
        size = max(_FIRST_NBYTES, 1 << (nbytes - 1).bit_length())
        larger = self._transport.alloc(size, self._masters[master])
        if buffer is not None:
            buffer.free()
        return larger
