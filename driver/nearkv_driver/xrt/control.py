# SPDX-License-Identifier: Apache-2.0
"""The kernel's control registers, as XRT lets them be reached: directly, or by starting and watching a run.

Both show what a kernel does only in `pause`. No memory here: a run's buffers are looked up by address when it starts.

CTRL of `RegisterControl` is the card's own register as the last `pause` read it, and after a write what ap_ctrl_chain
prescribes (START lets IDLE drop in the same cycle), until the next `pause` reads it again. CTRL of `RunControl` says
what XRT says: START until XRT has handed the list to the kernel, nothing while it runs, DONE and IDLE when XRT calls it
completed (then XRT itself has told the kernel to continue), IDLE after CONTINUE is written here. There READY never
shows, a second START is refused, and no other register can be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from nearkv_driver.errors import BufferMisuse, DriverError, RunFailed, TransportUnavailable
from nearkv_driver.regmap import (
    ADDR_CTL,
    ADDR_CTRL,
    ADDR_KV,
    ADDR_OUT,
    CTRL_CONTINUE,
    CTRL_DONE,
    CTRL_IDLE,
    CTRL_READY,
    CTRL_START,
    REGISTER_GONE,
)
from nearkv_driver.xrt.api import RunState, XrtBo, XrtError, XrtRegisters, XrtRun

# Vitis leaves one reserved word after each pointer.
NBYTES = ADDR_OUT + 12
_ARGUMENTS = (ADDR_KV, ADDR_CTL, ADDR_OUT)
_WORDS = tuple(address + half for address in _ARGUMENTS for half in (0, 4))
# A wait of pyxrt stops all Python threads, and XRT 2.13 sleeps whole seconds in longer ones.
_STEP_MS = 5
_POLL_LEAST_S, _POLL_MOST_S = 20e-6, 1e-3
_ON_ITS_WAY = (RunState.NEW, RunState.QUEUED, RunState.SUBMITTED)


class Control(Protocol):
    """Offsets and values are checked by the caller."""

    @property
    def busy(self) -> bool:
        """Whether a list has been started whose end has not been seen."""
        ...

    def read(self, offset: int) -> int: ...

    def write(self, offset: int, value: int) -> None: ...

    def pause(self, seconds: float) -> None: ...

    def free(self) -> None: ...


class RegisterControl:
    """Through an exclusive context of the unit; XRT's scheduler stays out of it."""

    def __init__(self, registers: XrtRegisters, card: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._registers, self._card, self._sleep = registers, card, sleep
        self._seen = self._get(ADDR_CTRL)

    @property
    def busy(self) -> bool:
        return self._seen != REGISTER_GONE and not self._seen & (CTRL_DONE | CTRL_IDLE)

    def settle(self, seconds: float = 1.0) -> None:
        """Ends what a program that died has left: its list is let end and acknowledged, so that START is not held."""
        if self.busy:
            self.pause(seconds)
        if self.busy:
            raise TransportUnavailable(
                f"the unit still runs a list that another program has left (CTRL = {self._seen:#x})",
                card=self._card,
                remedy="try again later; if it stays so, reset the card: xbutil reset",
            )
        if self._seen == REGISTER_GONE:
            return
        self._seen &= ~CTRL_READY
        if self._seen & CTRL_DONE:
            self.write(ADDR_CTRL, CTRL_CONTINUE)

    def read(self, offset: int) -> int:
        if offset != ADDR_CTRL:
            return self._get(offset)
        value = self._seen
        if value != REGISTER_GONE:
            self._seen &= ~CTRL_READY
        return value

    def write(self, offset: int, value: int) -> None:
        try:
            self._registers.write(offset, value)
        except XrtError as error:
            raise DriverError(f"XRT cannot write register {offset:#x}: {error}", card=self._card) from error
        if offset != ADDR_CTRL or self._seen == REGISTER_GONE:
            return
        if value & CTRL_CONTINUE and self._seen & CTRL_DONE:
            self._seen &= ~CTRL_DONE
            self._seen |= 0 if self._seen & CTRL_START else CTRL_IDLE
        if value & CTRL_START:
            self._seen = (self._seen | CTRL_START) & ~CTRL_IDLE

    def pause(self, seconds: float) -> None:
        if not self.busy:
            self._sleep(max(0.0, seconds))
            self._look()
            return
        end_s, step_s = time.monotonic() + seconds, _POLL_LEAST_S
        while True:
            self._look()
            left_s = end_s - time.monotonic()
            if not self.busy or left_s <= 0:
                return
            self._sleep(min(step_s, left_s))
            step_s = min(2 * step_s, _POLL_MOST_S)

    def free(self) -> None:
        self._registers.free()

    def _look(self) -> None:
        """READY clears when the card's register is read: it is kept until someone reads it here."""
        value = self._get(ADDR_CTRL)
        self._seen = value if value == REGISTER_GONE else value | self._seen & CTRL_READY

    def _get(self, offset: int) -> int:
        try:
            return self._registers.read(offset)
        except XrtError as error:
            raise DriverError(f"XRT cannot read register {offset:#x}: {error}", card=self._card) from error


class RunControl:
    """Through one `xrt::run`, which XRT's scheduler starts."""

    def __init__(
        self,
        run: XrtRun,
        find: Callable[[int], XrtBo | None],
        card: str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._run, self._find, self._card, self._sleep = run, find, card, sleep
        self._words = dict.fromkeys(_WORDS, 0)
        self._ctrl = CTRL_IDLE

    @property
    def busy(self) -> bool:
        return not self._ctrl & CTRL_IDLE

    def read(self, offset: int) -> int:
        if offset != ADDR_CTRL:
            raise TransportUnavailable(
                f"register {offset:#x} cannot be read through a run of XRT",
                card=self._card,
                remedy="nearkv's native binding reads registers: add api=native&control=registers to the card URL",
            )
        return self._ctrl

    def write(self, offset: int, value: int) -> None:
        if offset in self._words:
            self._words[offset] = value
        elif offset == ADDR_CTRL:
            if value & CTRL_CONTINUE and self._ctrl & CTRL_DONE:
                self._ctrl = CTRL_IDLE
            if value & CTRL_START:
                self._start()
        else:
            raise TransportUnavailable(
                f"register {offset:#x} cannot be written through a run of XRT",
                card=self._card,
                remedy="XRT itself handles interrupts; add api=native&control=registers to the card URL for registers",
            )

    def pause(self, seconds: float) -> None:
        if not self.busy:
            self._sleep(max(0.0, seconds))
            return
        end_s = time.monotonic() + seconds
        while True:
            self._look()
            left_s = end_s - time.monotonic()
            if not self.busy or left_s <= 0:
                return
            if left_s < 1e-3:  # a run waits for whole milliseconds
                self._sleep(left_s)
                continue
            try:
                self._run.wait(min(int(left_s * 1000), _STEP_MS))
            except XrtError as error:
                raise DriverError(f"XRT cannot wait for the list: {error}", card=self._card) from error

    def free(self) -> None:
        self._run.free()

    def _start(self) -> None:
        if self._ctrl != CTRL_IDLE:
            raise TransportUnavailable(
                "a second START before CONTINUE: a run of XRT holds none back",
                card=self._card,
                remedy="write CONTINUE first",
            )
        bos = []
        for name, address in zip(("KV", "CTL", "OUT"), _ARGUMENTS, strict=True):
            value = self._words[address] | self._words[address + 4] << 32
            bo = self._find(value)
            if bo is None:
                raise BufferMisuse(
                    f"START with {name} = {value:#x}, which is the address of no buffer: a run of XRT takes buffers",
                    card=self._card,
                )
            bos.append(bo)
        try:
            for index, bo in enumerate(bos):
                self._run.set_buffer(index, bo)
            self._run.start()
        except XrtError as error:
            raise DriverError(f"XRT cannot start the list: {error}", card=self._card) from error
        self._ctrl = CTRL_START

    def _look(self) -> None:
        """What `wait` returns is not looked at: TIMEOUT there only means that its time was up."""
        try:
            state = self._run.state()
        except XrtError as error:
            raise DriverError(f"XRT cannot say how the list is: {error}", card=self._card) from error
        if state == RunState.COMPLETED:
            self._ctrl = CTRL_DONE | CTRL_IDLE
        elif state == RunState.RUNNING or state in _ON_ITS_WAY:
            self._ctrl = 0 if state == RunState.RUNNING else CTRL_START
        else:
            name = RunState(state).name if state in RunState._value2member_map_ else f"state {state}"
            self._ctrl = CTRL_IDLE
            raise RunFailed(
                f"XRT ended the list with {name}; what the reply holds is not used. Close the device and open it again",
                card=self._card,
                state=name,
            )
