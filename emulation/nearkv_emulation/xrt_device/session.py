# SPDX-License-Identifier: Apache-2.0
"""One opened device: answers the shim's calls on a card, one after the other, until Close. Knows no sockets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from nearkv_emulation.xrt_device import messages
from nearkv_emulation.xrt_device.card import EmulatedBoard
from nearkv_emulation.xrt_device.messages import Call, answer, answer_data
from nearkv_emulation.xrt_device.wire import Fields, ProtocolError


@dataclass
class Counters:
    """What passed between host and device. Bytes of P2P buffers pass no message and are not among them."""

    calls: int = 0
    to_device_nbytes: int = 0
    from_device_nbytes: int = 0
    p2p_buffers: int = 0
    p2p_nbytes: int = 0


class Session:
    """The calls on one card. `closed` is set by Close."""

    def __init__(self, board: EmulatedBoard) -> None:
        self._board = board
        self.counters = Counters()
        self.closed = False
        self._began = time.monotonic_ns()
        self._calls: dict[int, Callable[[Fields], bytes]] = {
            Call.CLOSE: self._close,
            Call.ALLOC: self._alloc,
            Call.FREE: self._free,
            Call.TO_DEVICE: self._to_device,
            Call.FROM_DEVICE: self._from_device,
            Call.WRITE_RAM: self._write_ram,
            Call.READ_RAM: self._read_ram,
            Call.WRITE_REGISTERS: self._write_registers,
            Call.READ_REGISTERS: self._read_registers,
            Call.TRACE: lambda fields: b"",
            Call.TIMESTAMP: self._timestamp,
            Call.DEBUG: lambda fields: b"",
            Call.COPY_TO_FILE: self._refuse,
            Call.COPY_FROM_FILE: self._refuse,
            Call.IMPORT: self._refuse,
        }

    def answer(self, call: int, message: bytearray) -> bytes:
        """The reply. Raises ProtocolError, MemoryFault, UnitFailed, OSError."""
        self.counters.calls += 1
        try:
            fields = Fields.parse(message)
            handler = self._calls.get(call)
            # Calls that ask for nothing (ENVIRONMENT, and what later versions add) are content with "it worked".
            return answer() if handler is None else handler(fields)
        except ProtocolError as error:
            raise ProtocolError(f"call {_name(call)} of {len(message)} bytes: {error}") from error

    def _close(self, fields: Fields) -> bytes:
        self.closed = True
        return answer()

    def _alloc(self, fields: Fields) -> bytes:
        wanted = messages.Alloc.of(fields)
        if not wanted.p2p:
            return answer()
        path = self._board.memory.add_p2p(wanted.address, wanted.nbytes)
        self.counters.p2p_buffers += 1
        self.counters.p2p_nbytes += wanted.nbytes
        return answer_data(1, path.encode())

    def _free(self, fields: Fields) -> bytes:
        self._board.memory.free(fields.number(1))
        return answer()

    def _to_device(self, fields: Fields) -> bytes:
        write = messages.to_device(fields)
        self._board.memory.write(write.address, write.data)
        self.counters.to_device_nbytes += len(write.data)
        return answer(len(write.data))

    def _from_device(self, fields: Fields) -> bytes:
        read = messages.from_device(fields)
        self.counters.from_device_nbytes += read.nbytes
        return answer_data(read.nbytes, self._board.memory.read(read.address, read.nbytes))

    def _write_ram(self, fields: Fields) -> bytes:
        write = messages.plain_write(fields)
        self._board.memory.write(write.address, write.data)
        return answer()

    def _read_ram(self, fields: Fields) -> bytes:
        read = messages.plain_read(fields)
        return answer_data(1, self._board.memory.read(read.address, read.nbytes))

    def _write_registers(self, fields: Fields) -> bytes:
        write = messages.plain_write(fields)
        self._board.write_registers(write.address, write.data)
        return answer()

    def _read_registers(self, fields: Fields) -> bytes:
        read = messages.plain_read(fields)
        return answer_data(1, self._board.read_registers(read.address, read.nbytes))

    def _timestamp(self, fields: Fields) -> bytes:
        return answer(time.monotonic_ns() - self._began)

    def _refuse(self, fields: Fields) -> bytes:
        raise ProtocolError("buffers of another device are not emulated")


def _name(call: int) -> str:
    return Call(call).name if call in Call._value2member_map_ else str(call)
