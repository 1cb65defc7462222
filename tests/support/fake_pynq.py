# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the modules pynq and pynq._3rdparty.xrt, as careless as PYNQ 3.0.1 is and as strict as XRT behind it.

What PYNQ does not check is not checked here. What XRT forbids lands in `Script.misuse`, which tests want empty: handles
used or closed twice, buffers freed twice or left, registers without an exclusive context. NumPy computes behind it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from nearkv_driver.errors import OutOfDeviceMemory
from nearkv_driver.regmap import ADDR_CTL, ADDR_CTRL, ADDR_KV, ADDR_OUT
from nearkv_driver.transport import Bank
from nearkv_driver.xclbin import Design, read_container
from nearkv_emulation.control import ControlRegisters
from nearkv_emulation.ddr import DdrBank
from nearkv_emulation.kernel import Kernel, Masters, Region
from nearkv_emulation.model import ModelKernel

from tests.support.fake_pyxrt import SHELL

_KERNEL_CTRL = 2
_P2P = 1 << 30
_BANK_TYPES = ("DDR3", "DDR4", "DRAM", "Streaming", "Preallocated", "ARE", "HBM", "BRAM", "URAM", "AXI Stream")
_FAILED = 0xFFFFFFFF
_SIZE_MAX = (1 << 64) - 1


@dataclass
class Script:
    """What the test decides, and below the line what it may look at afterwards."""

    version: str = "3.0.1"
    cards: int = 1
    names: tuple[str, ...] = (SHELL, SHELL)
    refuse_open: bool = False
    refuse_load: int = 0  # an errno
    held: bool = False  # another program holds the unit
    p2p: bool = True
    maps: bool = True
    addresses: bool = True
    registers: bool = True
    kernel: Kernel = field(default_factory=ModelKernel)
    # ---
    misuse: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    buffers: int = 0
    handles: int = 0


class _Raw:
    """A handle of xclOpen."""

    def __init__(self, script: Script, device: _Device) -> None:
        self.script, self.device, self.open = script, device, True
        self.bos: dict[int, _Memory] = {}
        self.exclusive = False
        self.last = 0
        script.handles += 1

    def close(self) -> None:
        if not self.open:
            self.script.misuse.append("xclClose of a closed handle")
            return
        if self.bos:
            self.script.misuse.append(f"xclClose with {len(self.bos)} buffers")
        if self.exclusive:
            self.script.misuse.append("xclClose with a context")
        self.open, self.script.handles = False, self.script.handles - 1
        self.script.events.append("close")


class _Memory:
    def __init__(self, bank: DdrBank, start: int, nbytes: int, p2p: bool) -> None:
        self.bank, self.start, self.nbytes, self.p2p = bank, start, nbytes, p2p
        self.host = None if p2p else mmap.mmap(-1, nbytes)
        self.mapped: Any = None

    def device(self) -> memoryview:
        return self.bank.view(self.start, self.nbytes)

    def map(self) -> Any:
        target: Any = self.device() if self.host is None else self.host
        self.mapped = self.mapped or (ctypes.c_char * self.nbytes).from_buffer(target)
        return self.mapped


class _Unit:
    """Registers of the kernel, which runs when CTRL is read after a start."""

    def __init__(self, script: Script, banks: list[DdrBank]) -> None:
        self._script, self._banks = script, banks
        self._registers, self._begun = ControlRegisters(), False

    def read(self, offset: int) -> int:
        if self._begun and offset == ADDR_CTRL:
            regions = [Region(b.bank.base, b.memory) for b in self._banks]
            pointers = [self._registers.argument(a) for a in (ADDR_KV, ADDR_CTL, ADDR_OUT)]
            self._registers.accepted()
            self._script.kernel.run(Masters(regions, regions, regions), *pointers)
            self._registers.ended()
            self._begun = self._registers.begin()
        return self._registers.read(offset)

    def write(self, offset: int, value: int) -> None:
        self._registers.write(offset, value)
        self._begun = self._registers.begin() or self._begun


def loader(script: Script) -> Callable[[str], Any]:
    """What `importlib.import_module` is replaced with; every call makes a machine of its own."""
    xrt = _binding(script)
    devices = [_Device(script, index) for index in range(script.cards)]
    pynq = SimpleNamespace(
        __version__=script.version, Device=SimpleNamespace(devices=devices), Overlay=_Overlay, DefaultIP=_DefaultIP
    )
    return {"pynq": pynq, "pynq._3rdparty.xrt": xrt}.__getitem__


class _Device:
    def __init__(self, script: Script, index: int) -> None:
        self._script, self.name = script, script.names[index]
        slot = (0x3E + index) << 8 | 1
        self._info = SimpleNamespace(mPciSlot=slot)
        self.contexts: dict[str, Any] = {}
        self.ip_dict: dict[str, dict[str, Any]] = {}
        self.banks: list[DdrBank] = []
        self.units: dict[int, _Unit] = {}
        self._get_handle()

    def _get_handle(self) -> None:
        self.handle: Any = None if self._script.refuse_open else _Raw(self._script, self)

    def open_context(self, description: dict[str, Any], shared: bool = True) -> int:
        name = description["cu_name"]
        if name in self.contexts:
            return 0
        if self._script.held:
            raise RuntimeError(f"Could not open CU context - {-errno.EBUSY}, 0")
        self.contexts[name] = {"idx": 0, "shared": shared}
        self.handle.exclusive = not shared
        return 0

    def close_context(self, name: str) -> None:
        if self.contexts.pop(name, None) is None:
            raise RuntimeError(f"CU context ({name}) is not open.")
        self.handle.exclusive = False
        self._script.events.append("context")

    def free_bitstream(self) -> None:
        for name in list(self.contexts):
            self.close_context(name)

    def allocate_bo(self, nbytes: int, flags: int, cacheable: int) -> int:
        self._script.flags.append(flags)
        raw, number, p2p = self.handle, flags & 0xFFFF, bool(flags & _P2P)
        if not 0 <= number < len(self.banks) or (p2p and not self._script.p2p):
            raise RuntimeError(f"Allocate failed: {_FAILED}")
        try:
            start = self.banks[number].take(nbytes)
        except OutOfDeviceMemory:
            raise RuntimeError(f"Allocate failed: {_FAILED}") from None
        raw.last += 1
        raw.bos[raw.last] = _Memory(self.banks[number], start, -(-nbytes // 4096) * 4096, p2p)
        self._script.buffers += 1
        return int(raw.last)

    def map_bo(self, bo: int) -> Any:
        if not self._script.maps:
            return (ctypes.c_char * 4096).from_address(_SIZE_MAX)
        return self.handle.bos[bo].map()

    def get_device_address(self, bo: int) -> int:
        memory = self.handle.bos[bo]
        return memory.bank.bank.base + memory.start if self._script.addresses else 0

    def flush(self, bo: int, offset: int, ptr: int, size: int) -> None:
        memory, where = self._range("Flush", bo, offset, ptr, size)
        if memory.host is not None:
            memory.device()[where] = memoryview(memory.host)[where]

    def invalidate(self, bo: int, offset: int, ptr: int, size: int) -> None:
        memory, where = self._range("Invalidate", bo, offset, ptr, size)
        if memory.host is not None:
            memoryview(memory.host)[where] = memory.device()[where]

    def _range(self, what: str, bo: int, offset: int, ptr: int, size: int) -> tuple[_Memory, slice]:
        memory: _Memory = self.handle.bos[bo]
        if size <= 0 or offset + size > memory.nbytes or ptr != ctypes.addressof(memory.map()) + offset:
            raise RuntimeError(f"{what} Failed: {_SIZE_MAX & _FAILED}")
        return memory, slice(offset, offset + size)


class _Overlay:
    def __init__(self, file: str, download: bool, device: _Device) -> None:
        self._device, script = device, device._script
        if not os.path.isabs(file):
            script.misuse.append(f"Overlay of {file}, which PYNQ looks for in its own folders too")
        self._design = Design.of(read_container(file), file)
        for bank in self._design.banks:
            _BANK_TYPES[bank.type]  # as PYNQ's own reader does
        if download:
            self.download()

    def download(self) -> None:
        device, script = self._device, self._device._script
        if device.contexts:
            script.misuse.append("Overlay closes the contexts that are open")
            device.free_bitstream()
        if not device.handle:
            device._get_handle()
        if script.refuse_load:
            number = script.refuse_load
            text = f"{errno.errorcode[number]} ({number}) {os.strerror(number)}"
            raise RuntimeError(f"Programming Device failed: {text}")
        device.banks = [DdrBank(Bank(b.tag, i, b.base, b.nbytes), "fake") for i, b in enumerate(self._design.banks)]
        for bank in device.banks:
            bank.take(4096)  # of another program: so no bank's base is the address of a buffer
        device.units = {unit.base: _Unit(script, device.banks) for unit in self._design.units}
        device.ip_dict = {
            unit.name: {"phys_addr": unit.base, "addr_range": 4096, "cu_name": f"{unit.kernel}:{unit.name}"}
            for unit in self._design.units
        }


class _DefaultIP:
    def __init__(self, description: dict[str, Any]) -> None:
        device = description["device"]
        device.open_context(description)  # shared where nobody has opened it
        self.mmio = SimpleNamespace(base_addr=description["phys_addr"], length=description["addr_range"])


def _binding(script: Script) -> Any:
    def usable(raw: _Raw, what: str) -> bool:
        if not raw.open:
            script.misuse.append(f"{what} with a closed handle")
        return raw.open

    def access(raw: _Raw, what: str, space: int, address: int, nbytes: int) -> tuple[_Unit, int] | None:
        if not usable(raw, what) or not script.registers or space != _KERNEL_CTRL or nbytes != 4:
            return None
        if not raw.exclusive:
            script.misuse.append(f"{what} without an exclusive context")
        units = raw.device.units.items()
        found = [(unit, address - base) for base, unit in units if 0 <= address - base < 4096]
        return found[0] if found else None

    def read(raw: _Raw, space: int, address: int, word: Any, nbytes: int) -> int:
        found = access(raw, "xclRead", space, address, nbytes)
        if found is None:
            return _SIZE_MAX
        word._obj.value = found[0].read(found[1])
        return nbytes

    def write(raw: _Raw, space: int, address: int, word: Any, nbytes: int) -> int:
        found = access(raw, "xclWrite", space, address, nbytes)
        if found is None:
            return _SIZE_MAX
        found[0].write(found[1], word._obj.value)
        return nbytes

    def unmap(raw: _Raw, number: Any, place: Any) -> int:
        memory = raw.bos.get(number.value)
        mapped = memory.mapped if memory is not None and usable(raw, "xclUnmapBO") else None
        if memory is None or mapped is None or place.value != ctypes.addressof(mapped):
            script.misuse.append("xclUnmapBO of something else")
            return -errno.EINVAL
        memory.mapped = None
        if memory.host is not None:
            np.frombuffer(memory.host, np.uint8)[:] = 0xDD  # whoever still reads it sees this
        return 0

    def free(raw: _Raw, number: int) -> None:
        memory = raw.bos.pop(number, None)
        if not usable(raw, "xclFreeBO") or memory is None:
            script.misuse.append("xclFreeBO of a buffer that is none")
            return
        if memory.mapped is not None:
            script.misuse.append("xclFreeBO of a buffer that is still mapped")
        memory.bank.give(memory.start)
        script.buffers -= 1
        script.events.append("buffer")

    return SimpleNamespace(
        xclRead=read,
        xclWrite=write,
        xclFreeBO=free,
        xclClose=lambda raw: raw.close(),
        libc=SimpleNamespace(xclUnmapBO=unmap),
        xclAddressSpace=SimpleNamespace(XCL_ADDR_KERNEL_CTRL=_KERNEL_CTRL),
    )
