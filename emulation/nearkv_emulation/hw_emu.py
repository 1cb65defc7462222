# SPDX-License-Identifier: Apache-2.0
"""The `hw_emu` card: a transport whose kernel is the RTL, Verilated, cycle by cycle in the caller's thread.

Registers are read and written over AXI4-Lite, which takes the card's clock cycles. Nothing runs between calls. Every
open card is a card of its own, whatever its name. Its URL is read by `hw_emu_options`, its drive is in `drive`.
"""

from __future__ import annotations

import shutil

from nearkv_driver.errors import DriverError, TransportUnavailable
from nearkv_driver.registry import CardUrl
from nearkv_driver.regmap import ADDR_CTL, ADDR_CTRL, ADDR_OUT, CTRL_START
from nearkv_driver.transport import Buffer, CardInfo

from nearkv_emulation.card_memory import CardMemory
from nearkv_emulation.control import check_offset, check_write
from nearkv_emulation.hw_emu_options import HwEmuOptions, options_of
from nearkv_emulation.rtl import RtlCard, RtlFault

# The longest that a signal of the operating system waits for Python.
_CHUNK_MS = 100
# The writer of waveforms collects 128 MiB before it writes, and ends the process when a write fails.
_WAVE_ROOM_NBYTES = 256 << 20


def open_card(url: CardUrl) -> HwEmuCard:
    """Raises ValueError for an option that is unknown or out of range, BuildError when the RTL cannot be built."""
    return HwEmuCard(options_of(url))


class HwEmuCard:
    """A transport (nearkv_driver.transport.Transport) around one simulated kernel, `rtl`, which it closes."""

    def __init__(self, options: HwEmuOptions, rtl: RtlCard | None = None) -> None:
        self._info = options.info
        self._wave = options.wave
        self._memory = CardMemory(self._info, self._fill)
        self.rtl = rtl = rtl if rtl is not None else _simulated(options)
        try:
            rtl.memory(options.memory)
            for master in range(len(self._info.masters)):
                rtl.timing(master, options.timing)
            rtl.map(self._memory.behind(self._info.masters))
        except BaseException:
            rtl.close()
            raise

    def read32(self, offset: int) -> int:
        self._memory.require_open()
        check_offset(offset)
        try:
            return self.rtl.read32(offset)
        except RtlFault as error:
            raise self._fault(error) from error

    def write32(self, offset: int, value: int) -> None:
        self._memory.require_open()
        check_write(offset, value)
        if offset == ADDR_CTRL and value & CTRL_START:
            self._before_start()
        try:
            self.rtl.write32(offset, value)
        except RtlFault as error:
            raise self._fault(error) from error

    def alloc(self, nbytes: int, bank: int, p2p: bool = False) -> Buffer:
        return self._memory.alloc(nbytes, bank, p2p)

    def pause(self, seconds: float) -> None:
        """`seconds` of the card's clock. Where no list runs they are counted and cost nothing."""
        self._memory.require_open()
        end = self.rtl.cycles + round(max(0.0, seconds) * self._info.clock_hz)
        busy = self.rtl.busy
        try:
            while self.rtl.cycles < end and self.rtl.busy == busy:
                self._require_room()
                self.rtl.pause(end - self.rtl.cycles, _CHUNK_MS)
        except RtlFault as error:
            raise self._fault(error) from error

    def info(self) -> CardInfo:
        self._memory.require_open()
        return self._info

    def close(self) -> None:
        self._memory.close()
        self.rtl.close()

    def _before_start(self) -> None:
        """Pages that were read from the drive are there before the host starts a list, so their time passes now."""
        ctl, out = (self.read32(a) | self.read32(a + 4) << 32 for a in (ADDR_CTL, ADDR_OUT))
        self._memory.check_start(self._info.masters, ctl, out)
        if not self.rtl.busy:
            self.rtl.drain()

    def _require_room(self) -> None:
        if self._wave is None:
            return
        free = shutil.disk_usage(self._wave.parent).free
        if free < _WAVE_ROOM_NBYTES:
            raise DriverError(
                f"waveform file {self._wave}: {free} bytes are left on its disk, fewer than {_WAVE_ROOM_NBYTES}",
                card=self._info.url,
            )

    def _fill(self, address: int, nbytes: int) -> None:
        self._memory.require_open()
        self.rtl.fill(address, nbytes)

    def _fault(self, error: RtlFault) -> DriverError:
        return DriverError(f"the simulated kernel failed: {error}", card=self._info.url)


def _simulated(options: HwEmuOptions) -> RtlCard:
    """Builds the kernel when it is not in the cache."""
    try:
        return RtlCard(options.seed, wave=options.wave)
    except OSError as error:
        message = f"waveform file {options.wave}: {error.strerror or error}"
        raise TransportUnavailable(message, card=options.info.url) from error
