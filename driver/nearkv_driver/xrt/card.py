# SPDX-License-Identifier: Apache-2.0
"""A card behind XRT as a transport. How it is found, judged and set up is in `opening`; this drives what is open."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace

from nearkv_driver.errors import DriverError, OutOfDeviceMemory, TransportUnavailable
from nearkv_driver.transport import Buffer, CardInfo
from nearkv_driver.xrt.api import XrtBo, XrtDevice, XrtError
from nearkv_driver.xrt.buffer import XrtBuffer
from nearkv_driver.xrt.control import NBYTES, Control

_PAGE = 4096
_BUFFER_NBYTES_MAX = 1 << 32
# How long `close` lets a list write to memory that is about to be given back.
_CLOSE_S = 0.5
_log = logging.getLogger(__name__)


class XrtCard:
    """A transport (nearkv_driver.transport.Transport)."""

    def __init__(self, info: CardInfo, device: XrtDevice, group: int) -> None:
        """Not open before `take`: the control may need `find` of this card."""
        self._info, self._device, self._group = info, device, group
        self._resources = ExitStack()
        self._control: Control | None = None
        self._buffers: dict[int, XrtBuffer] = {}
        self._closed = False

    def take(self, control: Control, resources: ExitStack) -> None:
        """`resources` ends what XRT holds for this card: runs, kernels, then the device."""
        self._control, self._resources = control, resources

    def judge_p2p(self, reason: str) -> None:
        """What was found out of drive-to-card transfers after the card was open; "" when they work."""
        self._info = replace(self._info, p2p=not reason, p2p_reason=reason)

    def read32(self, offset: int) -> int:
        control = self._open()
        _check(offset)
        return control.read(offset)

    def write32(self, offset: int, value: int) -> None:
        control = self._open()
        _check(offset)
        if not 0 <= value < 1 << 32:
            raise ValueError(f"register value {value:#x} does not fit 32 bits")
        control.write(offset, value)

    def alloc(self, nbytes: int, bank: int, p2p: bool = False) -> Buffer:
        self._open()
        url = self._info.url
        if not 0 <= bank < len(self._info.banks):
            raise ValueError(f"bank {bank}; the card has banks 0 to {len(self._info.banks) - 1}")
        if not 0 < nbytes < _BUFFER_NBYTES_MAX:
            raise ValueError(f"a buffer of {nbytes} bytes; it has 1 to {_BUFFER_NBYTES_MAX - 1}")
        if p2p and not self._info.p2p:
            raise TransportUnavailable(f"no P2P buffers: {self._info.p2p_reason}", card=url)
        size = -(-nbytes // _PAGE) * _PAGE
        size = size if size < _BUFFER_NBYTES_MAX else nbytes
        place = self._info.banks[bank]
        available = place.nbytes - sum(-(-b.nbytes // _PAGE) * _PAGE for b in self._buffers.values())
        full = OutOfDeviceMemory(
            f"{place.tag} of {place.nbytes} bytes cannot hold {size} more; of what this program has not taken, "
            f"{available} bytes, other programs may hold some",
            card=url,
            bank=place.tag,
            needed=size,
            available=min(available, size - 1),
        )
        if size > available:
            raise full
        try:
            bo = self._device.alloc(size, self._group, p2p=p2p)
        except XrtError as error:
            raise self._no_buffer(error, full, p2p) from error
        try:
            buffer = XrtBuffer(bo, nbytes, bank, p2p, url, self._forget)
            if not p2p:
                _clear(bo, size)
        except XrtError as error:
            bo.free()
            raise DriverError(f"XRT made a buffer of {size} bytes that cannot be used: {error}", card=url) from error
        self._buffers[buffer.address] = buffer
        return buffer

    def pause(self, seconds: float) -> None:
        self._open().pause(seconds)

    def info(self) -> CardInfo:
        self._open()
        return self._info

    def find(self, address: int) -> XrtBo | None:
        """The buffer object that begins at a device address."""
        buffer = self._buffers.get(address)
        return buffer.bo if buffer else None

    def close(self) -> None:
        """In XRT's order: runs, buffers, kernels, device."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._control is not None:
                self._let_end(self._control)
        finally:
            if self._control is not None:
                self._control.free()
            for buffer in list(self._buffers.values()):
                buffer.free()
            self._resources.close()

    def _let_end(self, control: Control, clock: Callable[[], float] = time.monotonic) -> None:
        end_s = clock() + _CLOSE_S
        with suppress(DriverError):  # a card that is gone writes to nothing
            while control.busy and clock() < end_s:
                control.pause(0.05)
        if control.busy:
            _log.warning("%s: closed while a list runs that may still write to the memory it was given", self._info.url)

    def _no_buffer(self, error: XrtError, full: OutOfDeviceMemory, p2p: bool) -> DriverError:
        if p2p and not error.memory:
            return TransportUnavailable(
                f"XRT made no P2P buffer: {error}",
                card=self._info.url,
                remedy="see nearkv doctor for the state of P2P, or add p2p=bounce to the card URL",
            )
        causes = "the bank is full, or P2P is not enabled" if p2p else "the bank is full, or another program holds it"
        return OutOfDeviceMemory(
            f"XRT made no buffer of {full.needed} bytes in {full.bank} (group {self._group}): {error}; {causes}",
            card=self._info.url,
            bank=full.bank,
            needed=full.needed,
            available=full.available,
        )

    def _forget(self, buffer: XrtBuffer) -> None:
        self._buffers = {address: b for address, b in self._buffers.items() if b is not buffer}

    def _open(self) -> Control:
        if self._closed or self._control is None:
            raise DriverError("the card is closed", card=self._info.url)
        return self._control


def _clear(bo: XrtBo, nbytes: int) -> None:
    """Zeros on both sides."""
    memory = bo.map()
    chunk = bytes(min(nbytes, 1 << 20))
    for start in range(0, nbytes, len(chunk)):
        memory[start : start + len(chunk)] = chunk[: nbytes - start]
    bo.sync(nbytes, 0, to_device=True)


def _check(offset: int) -> None:
    if offset % 4 or not 0 <= offset < NBYTES:
        raise ValueError(f"register offset {offset:#x}; registers are words from 0 to {NBYTES - 4:#x}")
