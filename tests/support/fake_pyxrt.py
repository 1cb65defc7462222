# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the module pyxrt, as strict as 2.13 or 2.25 are, with their traps; NumPy computes behind it.

What is recorded: waits, arguments that a call dropped, the order in which objects ended. What is scripted: how many
cards there are, rights, whether buffers can be P2P, another program's binary, the state that a run ends in.
"""

from __future__ import annotations

import mmap
import threading
import time
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from nearkv_driver.transport import Bank
from nearkv_driver.xclbin import Design, Section, SectionKind, XclbinError, read_container
from nearkv_driver.xclbin.tables import read_connections
from nearkv_emulation.ddr import DdrBank
from nearkv_emulation.kernel import Kernel, Masters, Region
from nearkv_emulation.model import ModelKernel

NO_UUID = "00000000-0000-0000-0000-000000000000"
BDF = "0000:3e:00.1"
SHELL = "xilinx_u2_gen3x4_xdma_gc_base_2"
_SLOT = 3 << 16  # 2.25 puts the context's slot into a memory group
_INT_MAX = (1 << 31) - 1


@dataclass
class Script:
    """What the test decides, and below the line what it may look at afterwards."""

    version: str = "2.13"
    cards: int = 1
    names: tuple[str, ...] = (SHELL,)
    interface: str = ""
    refuse_open: str = ""
    refuse_load: str = ""
    hold_load: threading.Event | None = None  # a load does not end before this is set
    loaded: str = NO_UUID
    p2p: bool = True
    ends_as: int = 4  # ERT_CMD_STATE_COMPLETED
    hold: threading.Event | None = None  # a run does not end before this is set
    kernel: Kernel = field(default_factory=ModelKernel)
    # ---
    waits: list[int] = field(default_factory=list)
    dropped: list[object] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    arguments: list[tuple[int, ...]] = field(default_factory=list)
    objects: dict[str, int] = field(default_factory=dict)

    @property
    def newer(self) -> bool:
        return self.version != "2.13"


class _Counted:
    """Says when it ends; what is left is in `Script.objects`."""

    def __init__(self, script: Script, kind: str) -> None:
        self._script, self._kind = script, kind
        script.objects[kind] = script.objects.get(kind, 0) + 1

    def __del__(self) -> None:
        if hasattr(self, "_kind"):
            self._script.objects[self._kind] -= 1
            self._script.ended.append(self._kind)


class _Card:
    """Memory and what is loaded; shared by all objects of one device."""

    def __init__(self) -> None:
        self.banks: list[DdrBank] = []
        self.design: Design | None = None
        self.links: dict[str, dict[int, int]] = {}
        self.uuid = NO_UUID

    def load(self, path: str) -> str:
        container = read_container(path)
        design = Design.of(container, path)
        banks = [DdrBank(Bank(b.tag, i, b.base, b.nbytes), "fake") for i, b in enumerate(design.banks)]
        for bank in banks:
            bank.take(4096)  # of another program: so no bank's base is the address of a buffer
        section = container.section(SectionKind.CONNECTIVITY)
        assert section is not None
        connections = read_connections(section, path, len(design.units), len(banks))
        self.links = {
            f"{u.kernel}:{{{u.name}}}": {c.argument: c.bank for c in connections if c.unit == n}
            for n, u in enumerate(design.units)
        }
        self.banks, self.design, self.uuid = banks, design, str(container.header.uuid)
        return self.uuid


def module(script: Script) -> Any:
    """A module object; every call makes a machine of its own."""
    cards = [_Card() for _ in range(script.cards)]

    class Uuid:
        def __init__(self, text: str) -> None:
            self._text = text

        def to_string(self) -> str:
            return self._text

    class Device(_Counted):
        def __init__(self, target: int | str) -> None:
            if script.refuse_open:
                raise RuntimeError(script.refuse_open)
            index = target if isinstance(target, int) else (0 if target == BDF else -1)
            if not 0 <= index < len(cards):
                raise RuntimeError(f"Could not open device with index '{index}'")
            super().__init__(script, "device")
            self.card, self._index = cards[index], index

        def get_info(self, key: str) -> str:
            names = {"bdf": f"0000:{0x3E + self._index:02x}:00.1", "name": script.names[self._index]}
            if key == "interface_uuid" and script.interface:
                return script.interface
            if key not in names:
                raise RuntimeError("No such query request (12)")
            return names[key]

        def get_xclbin_uuid(self) -> Uuid:
            return Uuid(script.loaded if self.card.uuid == NO_UUID else self.card.uuid)

        def load_xclbin(self, file: str) -> Uuid:
            _deprecated(script, "load_xclbin")
            return Uuid(self._load(file))

        def _load(self, file: str) -> str:
            if script.hold_load is not None:
                script.hold_load.wait()
            if script.refuse_load:
                raise RuntimeError(script.refuse_load)
            try:
                return self.card.load(file)
            except XclbinError as error:
                raise RuntimeError(str(error)) from error

    class KernelObject(_Counted):
        def __init__(self, *arguments: Any) -> None:
            if script.newer and len(arguments) == 2:
                self.device = arguments[0].device
            elif len(arguments) >= 3:
                _deprecated(script, "kernel(device, uuid, name)")
                self.device = arguments[0]
            else:
                raise TypeError("__init__(): incompatible constructor arguments")
            self.name = arguments[1 if script.newer and len(arguments) == 2 else 2]
            if self.name not in self.device.card.links:
                raise RuntimeError(f"No such kernel '{self.name}'")
            super().__init__(script, "kernel")

        def group_id(self, argument: int) -> int:
            links = self.device.card.links[self.name]
            if argument not in links:
                raise RuntimeError(f"No such argument {argument}")
            return links[argument] | (_SLOT if script.newer else 0)

        def __call__(self, *arguments: Any) -> Run:
            """Drops what it does not understand, and starts."""
            run = Run(self)
            for index, value in enumerate(arguments):
                if isinstance(value, Bo) or (type(value) is int and -_INT_MAX - 1 <= value <= _INT_MAX):
                    run.set_arg(index, value)
                else:
                    script.dropped.append(value)
            run.start()
            return run

    class Run(_Counted):
        def __init__(self, kernel: KernelObject) -> None:
            super().__init__(script, "run")
            self._kernel = kernel
            self._arguments: dict[int, Any] = {}
            self._state = 1
            self._failure: BaseException | None = None
            self._done = threading.Event()

        def set_arg(self, index: int, value: Any) -> None:
            if isinstance(value, Bo):
                if value.group != self._kernel.group_id(index):
                    raise RuntimeError(f"bo is not in the bank of argument {index}")
            elif type(value) is not int or not -_INT_MAX - 1 <= value <= _INT_MAX:
                raise TypeError("set_arg(): incompatible function arguments")
            self._arguments[index] = value

        def start(self) -> None:
            if self._state in (2, 3):
                raise RuntimeError("bad command state, can't launch")
            bos = [self._arguments[i] for i in range(3)]
            script.arguments.append(tuple(bo.address() for bo in bos))
            self._state = 3  # RUNNING, which pyxrt's enum does not name
            self._done.clear()
            threading.Thread(target=self._work, args=(bos,), daemon=True).start()

        def _work(self, bos: list[Any]) -> None:
            try:
                banks = self._kernel.device.card.banks
                regions = [Region(b.bank.base, b.memory) for b in banks]
                script.kernel.run(Masters(regions, regions, regions), *(bo.address() for bo in bos))
                if script.hold is not None:
                    script.hold.wait(30)
            except BaseException as error:
                self._failure = error
            self._state = script.ends_as
            self._done.set()

        def wait(self, milliseconds: int = 0) -> int:
            script.waits.append(milliseconds)
            if milliseconds == 0:
                raise AssertionError("wait() without a time waits for ever")
            # XRT's own word for "your time is up" is that of a command that ended so.
            return self._state if self._done.wait(milliseconds / 1000) else 8

        def state(self) -> int:
            assert self._failure is None, self._failure
            return self._state

    class Bo(_Counted):
        normal, cacheable, device_only, host_only, p2p, svm = 0, 1 << 24, 1 << 28, 1 << 29, 1 << 30, 1 << 27

        def __init__(self, device: Device, nbytes: int, flags: int, group: int) -> None:
            number = group & 0xFFFF
            banks = device.card.banks
            if (group & ~0xFFFF) != (_SLOT if script.newer else 0) or not 0 <= number < len(banks):
                _no_bo(script)
            if flags == self.p2p and not script.p2p:
                _no_bo(script)
            try:
                self._start = banks[number].take(nbytes)
            except Exception:
                _no_bo(script)
            super().__init__(script, "bo")
            self.group, self._bank, self._nbytes, self._p2p = group, banks[number], nbytes, flags == self.p2p
            self._host = None if self._p2p else mmap.mmap(-1, nbytes)

        def address(self) -> int:
            return self._bank.bank.base + self._start

        def size(self) -> int:
            return self._nbytes

        def map(self) -> memoryview:
            return self._device() if self._host is None else memoryview(self._host)

        def sync(self, way: int, nbytes: int, offset: int) -> None:
            if nbytes <= 0 or offset < 0 or offset + nbytes > self._nbytes:
                raise RuntimeError("Invalid size or offset: Invalid argument")
            if self._host is None:
                return  # nothing moves: the map is the card's memory
            where = slice(offset, offset + nbytes)
            if way == 0:
                self._device()[where] = memoryview(self._host)[where]
            else:
                memoryview(self._host)[where] = self._device()[where]

        def _device(self) -> memoryview:
            return self._bank.view(self._start, self._nbytes)

        def __del__(self) -> None:
            if hasattr(self, "_start"):
                if self._host is not None:
                    np.frombuffer(self._host, np.uint8)[:] = 0xDD  # unmapped: whoever still reads it sees this
                self._bank.give(self._start)
            super().__del__()

    directions = SimpleNamespace(XCL_BO_SYNC_BO_TO_DEVICE=0, XCL_BO_SYNC_BO_FROM_DEVICE=1)
    queries = SimpleNamespace(bdf="bdf", name="name", interface_uuid="interface_uuid")
    parts: dict[str, Any] = {
        "device": Device,
        "kernel": KernelObject,
        "run": Run,
        "bo": Bo,
        "xclBOSyncDirection": directions,
        "xrt_info_device": queries,
    }
    if script.newer:

        class Context(_Counted):
            def __init__(self, device: Device, uuid: Uuid) -> None:
                if uuid.to_string() != device.card.uuid:
                    raise RuntimeError("xclbin is not registered")
                super().__init__(script, "context")
                self.device = device

        def register(self: Any, binary: Any) -> Uuid:
            return Uuid(self._load(binary.path))

        Device.register_xclbin = register  # type: ignore[attr-defined]
        parts["hw_context"] = Context
        parts["xclbin"] = lambda path: SimpleNamespace(path=path)
    return SimpleNamespace(**parts)


def settle(script: Script, kind: str, seconds: float = 5.0) -> bool:
    """Whether no object of a kind is left, waiting for threads that are about to end."""
    end = time.monotonic() + seconds
    while script.objects.get(kind) and time.monotonic() < end:
        time.sleep(0.001)
    return not script.objects.get(kind)


def _deprecated(script: Script, what: str) -> None:
    if script.newer:
        warnings.warn(f"{what} is deprecated", DeprecationWarning, stacklevel=3)


def _no_bo(script: Script) -> None:
    if script.newer:
        raise RuntimeError("failed to allocate userptr bo: Operation not permitted")
    raise MemoryError("std::bad_alloc")


def write_binary(
    path: Path,
    nbytes: int = 16 << 20,
    platform: str = "xilinx_u2_gen3x4_xdma_gc_2_202110_1",
    base: int = 0x4000000000,
    partition: bytes = b"",
) -> Path:
    """An xclbin of our kernel with one bank `bank0` of so many bytes; `partition`: its metadata."""
    from nearkv_driver.xclbin import Bank as DesignBank
    from nearkv_driver.xclbin import Clock, Unit, nearkv_kernel

    kernel = nearkv_kernel()
    design = Design(
        platform=platform,
        kernels=(kernel,),
        units=(Unit(kernel.name, "nearkv_attend_1", 0x1800000, {a.name: "bank0" for a in kernel.arguments}),),
        banks=(DesignBank("bank0", base, nbytes),),
        clocks=(Clock("DATA_CLK", 300),),
    )
    container = design.container(b"no bits")
    if partition:
        more = Section(SectionKind.PARTITION_METADATA, "partition", partition)
        container = replace(container, sections=(*container.sections, more))
    path.write_bytes(container.pack())
    return path
