# SPDX-License-Identifier: Apache-2.0
"""The `pynq:` card: XrtApi over PYNQ 3.0.1, the last PYNQ with PCIe cards. The only module that touches pynq.

PYNQ drives the unit by its registers, held exclusively; its own starts (`call`, `start`) are not used. Nor is
`pynq.allocate`: its buffers unmap memory that others may still look at. What PYNQ does not check is checked here.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nearkv_driver.errors import TransportUnavailable
from nearkv_driver.registry import CardUrl
from nearkv_driver.xrt.api import ApiInfo, Query, XrtError, XrtKernel
from nearkv_driver.xrt.card import XrtCard
from nearkv_driver.xrt.opening import Machine, find_binary, for_card, open_through
from nearkv_driver.xrt.places import Places

OPTIONS = ("xclbin", "cu")
INSTALL = 'pip install pynq==3.0.1 "pycparser<3" "setuptools<70", in an environment of its own: it takes numpy<2'
_VERSION, _LAST = (3, 0), "the last PYNQ that supports PCIe cards is 3.0.1; later ones have dropped them"
_XRT_MOST = (2, 16)
_INSTEAD = "or use the card through xrt: in place of pynq:"
_P2P_FLAG = 1 << 30  # XCL_BO_FLAGS_P2P; PYNQ hands the bank's number on as XRT's flags
_WORD_NBYTES = 4
_MAP_FAILED = ctypes.c_void_p(-1).value
_ERRNO = re.compile(r"\b(E[A-Z]+) \([0-9]+\)")


def open_card(url: CardUrl, machine: Machine | None = None) -> XrtCard:
    """ValueError for an option; TransportUnavailable or BuildMismatch with what to do for everything else."""
    url.only(OPTIONS)
    machine = machine or Machine(Places.of())
    binary = find_binary(url, machine)
    try:
        api = load_pynq(machine.places, machine.load)
    except TransportUnavailable as error:
        raise for_card(url.text, error) from error
    return open_through(api, binary, url, machine, registers=True)


def load_pynq(places: Places, load: Callable[[str], Any] = importlib.import_module) -> PynqApi:
    """TransportUnavailable: no PYNQ, one that is broken or of another version, no XRT, one that PYNQ cannot use."""
    _check_xrt(places)
    try:
        module = load("pynq")
        version = str(module.__version__)
        found = tuple(int(part) for part in re.findall(r"[0-9]+", version)[:2])
        if found == _VERSION:
            return PynqApi(module, load("pynq._3rdparty.xrt"), version, places.version())
    except ModuleNotFoundError as error:
        if error.name == "pynq":
            python = f"{sys.version_info.major}.{sys.version_info.minor}"
            text = f"PYNQ is not installed for this Python {python} ({sys.executable})"
            raise TransportUnavailable(text, remedy=INSTALL) from error
        raise TransportUnavailable(f"PYNQ is there but does not load: {error}", remedy=INSTALL) from error
    except OSError as error:
        raise TransportUnavailable(
            f"PYNQ cannot load XRT's library in {places.root}/lib: {error}",
            remedy="XILINX_XRT must name an XRT with its development files: source its setup.sh (Debian: libxrt-dev)",
        ) from error
    except Exception as error:  # importing PYNQ runs a lot of foreign code
        raise TransportUnavailable(f"PYNQ is there but does not load: {error!r}", remedy=INSTALL) from error
    why = _LAST if found > _VERSION else "nearkv knows 3.0.1 only"
    raise TransportUnavailable(f"PYNQ {version} is installed: {why}", remedy=f"{INSTALL}; {_INSTEAD}")


def _check_xrt(places: Places) -> None:
    """PYNQ looks at these when it is imported, and then never again."""
    if not places.root:
        raise TransportUnavailable(
            "PYNQ finds XRT by XILINX_XRT, which is not set",
            remedy="install XRT and source its setup.sh, or run it as nearkv xrt-emulate -- COMMAND",
        )
    if places.emulation not in ("", "hw_emu"):
        raise TransportUnavailable(
            f"PYNQ knows no emulation {places.emulation!r}", remedy="unset XCL_EMULATION_MODE, or set it to hw_emu"
        )
    version = places.version()
    if tuple(int(part) for part in re.findall(r"[0-9]+", version)[:2]) > _XRT_MOST:
        raise TransportUnavailable(
            f"XRT {version} has dropped what PYNQ 3.0.1 calls", remedy=f"install XRT 2.16 or older, {_INSTEAD}"
        )


class PynqApi:
    """`XrtApi` through PYNQ, which has a unit's registers and no runs."""

    has_registers = True

    def __init__(self, module: Any, xrt: Any, version: str, xrt_version: str) -> None:
        """`xrt`: PYNQ's binding of XRT's C functions."""
        self._module, self._xrt, self._version, self._xrt_version = module, xrt, version, xrt_version

    def info(self) -> ApiInfo:
        return ApiInfo("PYNQ", self._version, f"over XRT {self._xrt_version or 'of unknown version'}")

    def open(self, target: int | str) -> PynqDevice:
        """PYNQ opens all cards of the machine at once, and has one object for each as long as the process lives."""
        with _translated():
            devices = [device for device in self._module.Device.devices if hasattr(device, "_info")]
        cards = {_bdf(device): device for device in devices}
        found = devices[target : target + 1] if isinstance(target, int) else [cards[target]] if target in cards else []
        if found:
            return PynqDevice(self._module, self._xrt, found[0])
        listed = ", ".join(f"{_bdf(device)} {device.name}".strip() for device in devices) or "none"
        raise XrtError(f"no card {target}; PYNQ's cards: {listed}", errno=errno.ENODEV)


class _Handle:
    """XRT's handle of an open card. It is closed when nothing uses it any more: the card and every buffer hold it."""

    def __init__(self, xrt: Any, raw: Any) -> None:
        self.xrt, self.raw = xrt, raw

    def __del__(self) -> None:
        self.xrt.xclClose(self.raw)


class PynqDevice:
    """`XrtDevice`: one card of PYNQ's, exclusively; a second object of it in this process cannot load."""

    def __init__(self, module: Any, xrt: Any, device: Any) -> None:
        self._module, self._device = module, device
        self._handle: _Handle | None = None
        self._ip: Any = None
        if device.contexts:  # another card object of this process drives it: nothing here is ours
            return
        with _translated():
            if not device.handle:
                device._get_handle()
        if not device.handle:
            device.handle = None
            raise XrtError("xclOpen of a card that XRT lists gave no handle", errno=errno.EACCES)  # and no reason
        self._handle = _Handle(xrt, device.handle)

    def query(self, what: Query) -> str:
        if what is Query.NAME:
            return str(self._device.name)
        return _bdf(self._device) if what is Query.BDF else ""

    def loaded(self) -> str:
        return ""

    def load(self, xclbin: Path) -> None:
        """`Overlay` closes the contexts of whoever else uses the same object: so it must be ours alone."""
        if self._handle is None:
            raise XrtError("this process drives the card already; PYNQ has one object for a card", errno=errno.EBUSY)
        try:
            with _translated():
                overlay = self._module.Overlay(str(xclbin.absolute()), download=False, device=self._device)
        except XrtError as error:
            raise XrtError(f"PYNQ cannot read the file ({error}); it knows no bank of type HOST") from error
        with _translated():
            overlay.download()

    def kernel(self, name: str) -> XrtKernel:
        raise XrtError(f"runs of {name} are not started through PYNQ")

    def registers(self, name: str) -> PynqRegisters:
        """`name` is KERNEL:{UNIT}. Taken before PYNQ's own object is made, which would take the unit shared."""
        handle = self._required()
        unit = name.partition(":")[2].strip("{}")
        with _translated():
            description = {**self._device.ip_dict[unit], "device": self._device}
            self._device.open_context(description, shared=False)
            ip = self._module.DefaultIP(description)
        return PynqRegisters(handle, self._device, ip, str(description["cu_name"]))

    def alloc(self, nbytes: int, group: int, *, p2p: bool) -> PynqBo:
        handle = self._required()
        try:
            with _translated():
                number = self._device.allocate_bo(nbytes, group | (_P2P_FLAG if p2p else 0), 0)
        except XrtError as error:
            raise XrtError(str(error), errno=error.errno, memory=True) from error
        return PynqBo(_Bo(handle, number), self._device, nbytes)

    def close(self) -> None:
        """Contexts now; the handle when the last view of a buffer is gone. PYNQ's object may be opened again."""
        if self._handle is None:
            return
        with suppress(Exception):  # what is left goes with the handle
            self._device.free_bitstream()
        self._device.handle = None
        self._handle = None

    def _required(self) -> _Handle:
        if self._handle is None:
            raise XrtError("the card is not open")
        return self._handle


class PynqRegisters:
    """PYNQ's own read and write drop what XRT answers, so that a read that failed would be a 0."""

    def __init__(self, handle: _Handle, device: Any, ip: Any, unit: str) -> None:
        self._handle: _Handle | None = handle
        self._device, self._unit = device, unit
        self._base, self._space = ip.mmio.base_addr, handle.xrt.xclAddressSpace.XCL_ADDR_KERNEL_CTRL

    def read(self, offset: int) -> int:
        word = ctypes.c_uint32()
        self._check("xclRead", offset, word)
        return word.value

    def write(self, offset: int, value: int) -> None:
        self._check("xclWrite", offset, ctypes.c_uint32(value))

    def free(self) -> None:
        if self._handle is not None:
            self._handle = None
            with suppress(Exception):  # it goes with the card's handle too
                self._device.close_context(self._unit)

    def _check(self, name: str, offset: int, word: ctypes.c_uint32) -> None:
        handle, address = self._handle, self._base + offset
        if handle is None:
            raise XrtError("the unit has been given back")
        with _translated():
            moved = getattr(handle.xrt, name)(handle.raw, self._space, address, ctypes.byref(word), _WORD_NBYTES)
        if moved != _WORD_NBYTES:
            raise XrtError(f"{name} at {address:#x} moved {ctypes.c_ssize_t(moved).value} of {_WORD_NBYTES} bytes")


class _Bo:
    """XRT's number of a buffer; freed when the buffer and all views of its memory are gone."""

    def __init__(self, handle: _Handle, number: int) -> None:
        self.handle, self.number, self.place = handle, number, 0

    def __del__(self) -> None:
        xrt, raw = self.handle.xrt, self.handle.raw
        if self.place:
            xrt.libc.xclUnmapBO(raw, ctypes.c_uint(self.number), ctypes.c_void_p(self.place))
        xrt.xclFreeBO(raw, self.number)


class PynqBo:
    """`XrtBo`. The buffer ends when it is freed and no view of its memory is left. XrtError after `free`."""

    def __init__(self, bo: _Bo, device: Any, nbytes: int) -> None:
        self._bo: _Bo | None = bo
        self._device, self._nbytes = device, nbytes

    @property
    def address(self) -> int:
        """PYNQ does not look at XRT's answer: 0 stands for none."""
        with _translated():
            found = int(self._device.get_device_address(self._open().number))
        if found == 0:
            raise XrtError("the buffer has no device address")
        return found

    def map(self) -> memoryview:
        bo = self._open()
        if not bo.place:
            with _translated():
                mapped = self._device.map_bo(bo.number)
            place = ctypes.addressof(mapped)
            if place == _MAP_FAILED or len(mapped) < self._nbytes:
                raise XrtError(f"XRT maps no {self._nbytes} bytes of the buffer")
            bo.place = place
        memory = (ctypes.c_ubyte * self._nbytes).from_address(bo.place)
        memory.owner = bo  # type: ignore[attr-defined]  # lives as long as any view of the memory
        return memoryview(memory).cast("B")

    def sync(self, nbytes: int, offset: int, *, to_device: bool) -> None:
        bo, move = self._open(), self._device.flush if to_device else self._device.invalidate
        with _translated():
            move(bo.number, offset, bo.place + offset, nbytes)

    def free(self) -> None:
        self._bo = None

    def _open(self) -> _Bo:
        if self._bo is None:
            raise XrtError("the buffer is freed")
        return self._bo


def _bdf(device: Any) -> str:
    """XRT packs the PCI address into one number; "" in emulation, which has none."""
    slot = int(device._info.mPciSlot)
    return f"{slot >> 16:04x}:{slot >> 8 & 0xFF:02x}:{slot >> 3 & 0x1F:02x}.{slot & 7}" if slot else ""


@contextmanager
def _translated() -> Iterator[None]:
    """PYNQ raises what it likes, RuntimeError for most; names of errno stand in its texts."""
    try:
        yield
    except Exception as error:
        text = str(error) if type(error) in (RuntimeError, OSError) else repr(error)
        match = _ERRNO.search(text)
        raise XrtError(text, errno=getattr(errno, match[1], 0) if match else 0) from error
