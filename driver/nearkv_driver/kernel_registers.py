# SPDX-License-Identifier: Apache-2.0
"""The register sequence of the kernel: arguments and START, CTRL, CONTINUE. Waits for nothing and knows no list."""

from __future__ import annotations

from nearkv_driver.errors import DeviceGone, DriverError
from nearkv_driver.regmap import (
    ADDR_CTL,
    ADDR_CTRL,
    ADDR_KV,
    ADDR_OUT,
    CTRL_CONTINUE,
    CTRL_DONE,
    CTRL_IDLE,
    CTRL_START,
    REGISTER_GONE,
)
from nearkv_driver.transport import Transport


class KernelRegisters:
    """Of the card `url`. `gone`: whether it was seen to have left the bus."""

    def __init__(self, transport: Transport, url: str) -> None:
        self._transport, self._url = transport, url
        self.gone = False

    def start(self, kv: int, ctl: int, out: int) -> None:
        """Writes the three pointers, device addresses of 64 bits, and START."""
        for register, value in ((ADDR_KV, kv), (ADDR_CTL, ctl), (ADDR_OUT, out)):
            self._transport.write32(register, value & 0xFFFFFFFF)
            self._transport.write32(register + 4, value >> 32)
        self._transport.write32(ADDR_CTRL, CTRL_START)

    def started(self) -> bool:
        """Whether START reached the card, after a `start` that did not return. False where the card does not answer."""
        try:
            register = self.control()
        except DriverError:
            return False
        return bool(register & CTRL_DONE) or not register & CTRL_IDLE

    def control(self) -> int:
        """CTRL. DeviceGone where it reads all ones."""
        register = self._transport.read32(ADDR_CTRL)
        if register == REGISTER_GONE:
            self.gone = True
            raise DeviceGone("CTRL reads 0xffffffff: the card has left the bus", card=self._url)
        return register

    def go_on(self) -> None:
        """Acknowledges DONE."""
        self._transport.write32(ADDR_CTRL, CTRL_CONTINUE)
