# SPDX-License-Identifier: Apache-2.0
"""The register file `s_axi_control` of an emulated kernel, with the handshake of `ap_ctrl_chain` or `ap_ctrl_hs`.

Runs no kernel: it says when one is to begin and is told when it has ended. Without arguments it is that of our kernel.
"""

from __future__ import annotations

from collections.abc import Iterable

from nearkv_driver.regmap import (
    ADDR_CTL,
    ADDR_CTRL,
    ADDR_GIER,
    ADDR_IP_IER,
    ADDR_IP_ISR,
    ADDR_KV,
    ADDR_OUT,
    CTRL_CONTINUE,
    CTRL_DONE,
    CTRL_IDLE,
    CTRL_READY,
    CTRL_START,
    GIER_ENABLE,
    IP_IER_DONE,
    IP_IER_READY,
)

_ARGUMENTS = tuple(address + half for address in (ADDR_KV, ADDR_CTL, ADDR_OUT) for half in (0, 4))
# Vitis leaves one reserved word after each pointer.
NBYTES = ADDR_OUT + 12


class ControlRegisters:
    """What the host sees and sets; `begin`, `accepted` and `ended` are the kernel's side.

    arguments: offsets of the words of arguments. chain: DONE stays until CONTINUE; else reading clears it.
    """

    def __init__(self, arguments: Iterable[int] = _ARGUMENTS, nbytes: int = NBYTES, chain: bool = True) -> None:
        self._words = dict.fromkeys((*arguments, ADDR_GIER, ADDR_IP_IER, ADDR_IP_ISR), 0)
        self._nbytes, self._chain = nbytes, chain
        self._start = self._running = self._taken = self._done = self._ready = False

    def read(self, offset: int) -> int:
        check_offset(offset, self._nbytes)
        if offset != ADDR_CTRL:
            return self._words.get(offset, 0)
        value = CTRL_START if self._start else 0
        value |= CTRL_DONE if self._done else 0
        value |= 0 if self._start or self._running else CTRL_IDLE
        value |= CTRL_READY if self._ready else 0
        self._ready = False
        if not self._chain:
            self._done = False
        return value

    def write(self, offset: int, value: int) -> None:
        check_write(offset, value, self._nbytes)
        if offset == ADDR_CTRL:
            if value & CTRL_CONTINUE and self._chain:
                self._done = False
            if value & CTRL_START:
                self._start = True
        elif offset == ADDR_IP_ISR:
            self._words[offset] ^= value & (IP_IER_DONE | IP_IER_READY)
        elif offset == ADDR_IP_IER:
            self._words[offset] = value & (IP_IER_DONE | IP_IER_READY)
        elif offset == ADDR_GIER:
            self._words[offset] = value & GIER_ENABLE
        elif offset in self._words:
            self._words[offset] = value

    def argument(self, offset: int) -> int:
        """A 64-bit pointer."""
        return self._words[offset] | self._words[offset + 4] << 32

    def word(self, offset: int) -> int:
        """What was last written to a word of an argument."""
        return self._words[offset]

    def begin(self) -> bool:
        """Whether a list begins now; in a chain DONE holds the next one back until CONTINUE."""
        if not self._start or self._running or (self._done and self._chain):
            return False
        self._running, self._taken = True, False
        return True

    def accepted(self) -> None:
        """The kernel has taken its arguments: START falls, READY rises. Once per list, however often it is said."""
        if self._taken:
            return
        self._start, self._taken, self._ready = False, True, True
        self._words[ADDR_IP_ISR] |= self._words[ADDR_IP_IER] & IP_IER_READY

    def ended(self) -> None:
        self._running, self._done = False, True
        self._words[ADDR_IP_ISR] |= self._words[ADDR_IP_IER] & IP_IER_DONE

    def refused(self) -> None:
        """The list that was to begin did not: its START is forgotten."""
        self._start = self._running = False


def check_offset(offset: int, nbytes: int = NBYTES) -> None:
    """ValueError for an offset that is no register's of a window of `nbytes`."""
    if offset % 4 or not 0 <= offset < nbytes:
        raise ValueError(f"register offset {offset:#x}; registers are words from 0 to {nbytes - 4:#x}")


def check_write(offset: int, value: int, nbytes: int = NBYTES) -> None:
    """ValueError for an offset or a value that no register has."""
    check_offset(offset, nbytes)
    if not 0 <= value < 1 << 32:
        raise ValueError(f"register value {value:#x} does not fit 32 bits")
