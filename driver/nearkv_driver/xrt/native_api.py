# SPDX-License-Identifier: Apache-2.0
"""XrtApi over nearkv's own binding of XRT's native C++ API (`native/nearkv_xrt.cpp`), for where pyxrt is missing.

Does what pyxrt cannot: a compute unit's registers. Calls release the interpreter lock. Uses `load_xclbin` in every
version of XRT. Objects must be freed in the order runs, buffers, kernels, device; `card` does that.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from nearkv_driver.xrt.api import ApiInfo, Query, XrtBo, XrtError

_TEXT_NBYTES = 256
_QUERIES = {Query.BDF: 0, Query.NAME: 1, Query.INTERFACE: 2}
NO_UUID = "00000000-0000-0000-0000-000000000000"


class _Failure(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int32), ("memory", ctypes.c_int32), ("text", ctypes.c_char * 1024))


class Library:
    """The loaded binding; OSError when XRT's libraries are not there."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.nearkv_xrt_version.restype = ctypes.c_char_p

    def version(self) -> str:
        text: bytes = self._library.nearkv_xrt_version()
        return text.decode()

    def call(self, name: str, *arguments: object) -> None:
        """Raises XrtError with what XRT said."""
        failure = _Failure()
        if self._library[f"nearkv_xrt_{name}"](*arguments, ctypes.byref(failure)) != 0:
            text = failure.text.decode(errors="replace")
            raise XrtError(text, errno=failure.number, memory=bool(failure.memory))

    def free(self, name: str, handle: ctypes.c_void_p) -> None:
        """Once; a freed handle is null."""
        if handle.value:
            self._library[f"nearkv_xrt_{name}_free"](handle)
            handle.value = None

    def text(self, name: str, *arguments: object) -> str:
        """The answer of a function that fills a text."""
        answer = ctypes.create_string_buffer(_TEXT_NBYTES)
        self.call(name, *arguments, answer, ctypes.c_uint64(_TEXT_NBYTES))
        return answer.value.decode(errors="replace")

    def open(self, name: str, *arguments: object) -> ctypes.c_void_p:
        """The handle that a function makes."""
        handle = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle


class NativeApi:
    """`XrtApi` through nearkv's own library."""

    has_registers = True

    def __init__(self, library: Library, note: str) -> None:
        self._library, self._note = library, note

    def info(self) -> ApiInfo:
        return ApiInfo("nearkv's native binding", self._library.version(), self._note)

    def open(self, target: int | str) -> NativeDevice:
        if isinstance(target, int):
            return NativeDevice(self._library, self._library.open("device_open", None, ctypes.c_uint32(target)))
        handle = self._library.open("device_open", target.encode(), ctypes.c_uint32(0))
        return NativeDevice(self._library, handle)


class NativeDevice:
    """`XrtDevice`. Whoever opened it must close it."""

    def __init__(self, library: Library, handle: ctypes.c_void_p) -> None:
        self._library, self._handle = library, handle

    def query(self, what: Query) -> str:
        try:
            return self._library.text("device_query", self._handle, _QUERIES[what])
        except XrtError:  # emulation shims answer few of them
            return ""

    def loaded(self) -> str:
        try:
            uuid = self._library.text("device_loaded", self._handle).lower()
        except XrtError:
            return ""
        return "" if uuid == NO_UUID else uuid

    def load(self, xclbin: Path) -> None:
        self._library.call("device_load", self._handle, str(xclbin).encode())

    def kernel(self, name: str) -> NativeKernel:
        return NativeKernel(self._library, self._library.open("kernel_open", self._handle, name.encode()))

    def registers(self, name: str) -> NativeRegisters:
        return NativeRegisters(self._library, self._library.open("ip_open", self._handle, name.encode()))

    def alloc(self, nbytes: int, group: int, *, p2p: bool) -> NativeBo:
        size, where = ctypes.c_uint64(nbytes), ctypes.c_uint32(group)
        return NativeBo(self._library, self._library.open("bo_alloc", self._handle, size, int(p2p), where), nbytes)

    def close(self) -> None:
        self._library.free("device", self._handle)


class NativeKernel:
    """`XrtKernel`."""

    def __init__(self, library: Library, handle: ctypes.c_void_p) -> None:
        self._library, self._handle = library, handle

    def group(self, index: int) -> int:
        found = ctypes.c_uint32()
        self._library.call("kernel_group", self._handle, index, ctypes.byref(found))
        return found.value

    def run(self) -> NativeRun:
        return NativeRun(self._library, self._library.open("run_open", self._handle))

    def free(self) -> None:
        self._library.free("kernel", self._handle)


class NativeRun:
    """`XrtRun`; takes buffers of this binding only."""

    def __init__(self, library: Library, handle: ctypes.c_void_p) -> None:
        self._library, self._handle = library, handle

    def set_buffer(self, index: int, bo: XrtBo) -> None:
        assert isinstance(bo, NativeBo)
        self._library.call("run_set_buffer", self._handle, index, bo.handle)

    def start(self) -> None:
        self._library.call("run_start", self._handle)

    def wait(self, milliseconds: int) -> None:
        self._library.call("run_wait", self._handle, ctypes.c_uint32(max(1, milliseconds)))

    def state(self) -> int:
        found = ctypes.c_int32()
        self._library.call("run_state", self._handle, ctypes.byref(found))
        return found.value

    def free(self) -> None:
        self._library.free("run", self._handle)


class NativeRegisters:
    """`XrtRegisters`: 32-bit registers by byte offset."""

    def __init__(self, library: Library, handle: ctypes.c_void_p) -> None:
        self._library, self._handle = library, handle

    def read(self, offset: int) -> int:
        found = ctypes.c_uint32()
        self._library.call("ip_read", self._handle, ctypes.c_uint32(offset), ctypes.byref(found))
        return found.value

    def write(self, offset: int, value: int) -> None:
        self._library.call("ip_write", self._handle, ctypes.c_uint32(offset), ctypes.c_uint32(value))

    def free(self) -> None:
        self._library.free("ip", self._handle)


class NativeBo:
    """The buffer object ends when it is freed and no view of its memory is left."""

    def __init__(self, library: Library, handle: ctypes.c_void_p, nbytes: int) -> None:
        self._owner = _BoOwner(library, handle)
        self._library, self._nbytes = library, nbytes

    @property
    def handle(self) -> ctypes.c_void_p:
        return self._owner.handle

    @property
    def address(self) -> int:
        found = ctypes.c_uint64()
        self._library.call("bo_address", self.handle, ctypes.byref(found))
        return found.value

    def map(self) -> memoryview:
        memory = (ctypes.c_ubyte * self._nbytes).from_address(self._library.open("bo_map", self.handle).value or 0)
        memory.owner = self._owner  # type: ignore[attr-defined]  # lives as long as any view of the memory
        return memoryview(memory).cast("B")

    def sync(self, nbytes: int, offset: int, *, to_device: bool) -> None:
        size, start = ctypes.c_uint64(nbytes), ctypes.c_uint64(offset)
        self._library.call("bo_sync", self.handle, int(to_device), size, start)

    def free(self) -> None:
        """Drops this object's own hold."""
        self._owner = _BoOwner(self._library, ctypes.c_void_p())


class _BoOwner:
    def __init__(self, library: Library, handle: ctypes.c_void_p) -> None:
        self._library, self.handle = library, handle

    def __del__(self) -> None:
        self._library.free("bo", self.handle)
