# SPDX-License-Identifier: Apache-2.0
"""A compute unit whose kernel is a function: registers and handshake here, the work on a thread of the unit.

For the HLS library and the NumPy model of our kernel, and for any kernel that can be written as a function of its
arguments and device memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nearkv_driver.work_threads import Call, WorkThreads
from nearkv_driver.xclbin import Argument, Kernel
from nearkv_driver.xclbin.tables import Protocol

from nearkv_emulation.control import ControlRegisters

# Arguments by name as unsigned numbers; pointers are device addresses.
Function = Callable[[Mapping[str, int]], None]
_FIRST_ARGUMENT = 0x10


class FunctionUnit:
    """A KernelModel. Words of the register window that hold nothing read 0 and take no value, as on a card."""

    def __init__(self, name: str, kernel: Kernel, function: Function) -> None:
        if kernel.protocol not in (Protocol.AP_CTRL_HS, Protocol.AP_CTRL_CHAIN):
            raise ValueError(f"kernel {kernel.name} is {kernel.protocol.name.lower()}; it cannot be started")
        self._name, self._function = name, function
        self._arguments = [a for a in kernel.arguments if a.nbytes]
        for argument in self._arguments:
            if argument.offset < _FIRST_ARGUMENT or argument.offset % 4:
                raise ValueError(f"kernel {kernel.name}: argument {argument.name} at {argument.offset:#x}")
        words = [offset for argument in self._arguments for offset in _words(argument)]
        self._nbytes = max(words, default=_FIRST_ARGUMENT) + 4
        self._registers = ControlRegisters(words, self._nbytes, kernel.protocol is Protocol.AP_CTRL_CHAIN)
        self._thread = WorkThreads(f"unit {name}")
        self._running: Call[None] | None = None

    def read32(self, offset: int) -> int:
        return self._registers.read(offset) if offset < self._nbytes else 0

    def write32(self, offset: int, value: int) -> None:
        if offset < self._nbytes:
            self._registers.write(offset, value)
            self._begin()

    @property
    def busy(self) -> bool:
        return self._running is not None

    def advance(self, wall_s: float) -> None:
        if self._running is not None:
            try:
                ended = self._running.ends_within(wall_s)
            except BaseException:
                self._running = None
                raise
            self._registers.accepted()
            if ended:
                self._running = None
                self._registers.ended()
                self._begin()

    def close(self) -> None:
        """Waits for what runs: it writes into memory that goes after this."""
        self._thread.close()

    def _begin(self) -> None:
        if self._registers.begin():
            arguments = {a.name: self._value(a) for a in self._arguments}
            self._running = self._thread.give(lambda: self._function(arguments))

    def _value(self, argument: Argument) -> int:
        value = 0
        for i, offset in enumerate(_words(argument)):
            value |= self._registers.word(offset) << 32 * i
        return value & ((1 << 8 * argument.nbytes) - 1)


def _words(argument: Argument) -> range:
    return range(argument.offset, argument.offset + -(-argument.nbytes // 4) * 4, 4)
