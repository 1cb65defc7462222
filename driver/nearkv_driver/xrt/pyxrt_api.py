# SPDX-License-Identifier: Apache-2.0
"""XrtApi over pyxrt, 2.13 to current. The only module that touches pyxrt.

pyxrt reads and writes no register and passes no 64-bit scalar, so it only starts runs whose arguments are buffers.
`kernel(*args)` is never called: it drops arguments that it does not understand. Its waits hold the interpreter lock.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nearkv_driver.errors import TransportUnavailable
from nearkv_driver.xrt.api import ApiInfo, Query, XrtBo, XrtError, XrtRegisters
from nearkv_driver.xrt.places import Places

_NO_UUID = "00000000-0000-0000-0000-000000000000"
_SOURCES = (
    "pyxrt comes with AMD's XRT package (source /opt/xilinx/xrt/setup.sh) and, from Debian's release after 13 on, as "
    "python3-xrt; in Debian 12 and 13 that name is another program"
)


def load_pyxrt(places: Places, load: Callable[[str], Any] = importlib.import_module) -> PyxrtApi:
    """TransportUnavailable says which of three things is wrong: none, one that is broken, one for another Python."""
    try:
        module = load("pyxrt")
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "pyxrt":
            raise _missing(places) from error
        raise TransportUnavailable(
            f"pyxrt is there but does not load: {error}",
            remedy="the XRT it was made for must be installed: source its setup.sh, or reinstall XRT",
        ) from error
    return PyxrtApi(module, places.version())


def _missing(places: Places) -> TransportUnavailable:
    folders = list(dict.fromkeys(places.python_folders()))
    found = sorted(str(file) for folder in folders if folder.is_dir() for file in folder.glob("pyxrt*.so"))
    ours = f"{sys.implementation.cache_tag} (Python {sys.version_info.major}.{sys.version_info.minor})"
    if found:
        return TransportUnavailable(
            f"pyxrt is built for another Python; found {', '.join(found)}, this is {ours}",
            remedy="run nearkv with the Python that it was built for, or build the same version of it for this one",
        )
    looked = ", ".join(str(folder) for folder in folders if folder.is_dir()) or "no folder"
    return TransportUnavailable(f"no pyxrt for {ours}; looked in {looked}", remedy=_SOURCES)


class PyxrtApi:
    """`XrtApi` through XRT's own Python module, which has runs and no registers."""

    has_registers = False

    def __init__(self, module: Any, version: str) -> None:
        self._module, self._version = module, version

    def info(self) -> ApiInfo:
        way = "hw_context" if hasattr(self._module, "hw_context") else "load_xclbin"
        return ApiInfo("pyxrt", self._version, way)

    def open(self, target: int | str) -> PyxrtDevice:
        with _translated():
            return PyxrtDevice(self._module, self._module.device(target))


class PyxrtDevice:
    """`XrtDevice`. XRT closes the card when the last object made from it is gone."""

    def __init__(self, module: Any, device: Any) -> None:
        self._module, self._device = module, device
        self._context: Any = None
        self._uuid: Any = None

    def query(self, what: Query) -> str:
        key = getattr(self._module.xrt_info_device, what.value, None)
        if key is None:
            return ""
        try:
            return str(self._device.get_info(key))
        except RuntimeError:  # emulation shims answer few of them
            return ""

    def loaded(self) -> str:
        try:
            uuid = str(self._device.get_xclbin_uuid().to_string()).lower()
        except (RuntimeError, AttributeError):
            return ""
        return "" if uuid == _NO_UUID else uuid

    def load(self, xclbin: Path) -> None:
        with _translated():
            if hasattr(self._module, "hw_context"):
                self._uuid = self._device.register_xclbin(self._module.xclbin(str(xclbin)))
                self._context = self._module.hw_context(self._device, self._uuid)
            else:
                self._uuid = self._device.load_xclbin(str(xclbin))

    def kernel(self, name: str) -> PyxrtKernel:
        with _translated():
            if self._context is not None:
                return PyxrtKernel(self._module, self._module.kernel(self._context, name))
            return PyxrtKernel(self._module, self._module.kernel(self._device, self._uuid, name))

    def registers(self, name: str) -> XrtRegisters:
        raise XrtError(f"pyxrt has no access to the registers of {name}")

    def alloc(self, nbytes: int, group: int, *, p2p: bool) -> PyxrtBo:
        kinds = self._module.bo
        with _translated():
            return PyxrtBo(self._module, kinds(self._device, nbytes, kinds.p2p if p2p else kinds.normal, group), nbytes)

    def close(self) -> None:
        self._context = self._device = None


class PyxrtKernel:
    """`XrtKernel`."""

    def __init__(self, module: Any, kernel: Any) -> None:
        self._module, self._kernel = module, kernel

    def group(self, index: int) -> int:
        with _translated():
            return int(self._kernel.group_id(index))

    def run(self) -> PyxrtRun:
        with _translated():
            return PyxrtRun(self._module.run(self._kernel))

    def free(self) -> None:
        self._kernel = None


class PyxrtRun:
    """`XrtRun`; takes buffers of this binding only."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def set_buffer(self, index: int, bo: XrtBo) -> None:
        assert isinstance(bo, PyxrtBo)
        with _translated():
            self._run.set_arg(index, bo.object)

    def start(self) -> None:
        with _translated():
            self._run.start()

    def wait(self, milliseconds: int) -> None:
        with _translated():
            self._run.wait(max(1, milliseconds))  # 0 would wait for ever

    def state(self) -> int:
        with _translated():
            return int(self._run.state())

    def free(self) -> None:
        self._run = None


class PyxrtBo:
    """The buffer object ends when it is freed and no view of its memory is left."""

    def __init__(self, module: Any, bo: Any, nbytes: int) -> None:
        self._module, self.object, self._nbytes = module, bo, nbytes

    @property
    def address(self) -> int:
        with _translated():
            return int(self.object.address())

    def map(self) -> memoryview:
        with _translated():
            view = self.object.map()
        # pyxrt's memoryview does not keep the buffer object alive; this one does.
        memory = (ctypes.c_ubyte * self._nbytes).from_address(np.frombuffer(view, np.uint8).ctypes.data)
        memory.owner = self.object  # type: ignore[attr-defined]
        return memoryview(memory).cast("B")

    def sync(self, nbytes: int, offset: int, *, to_device: bool) -> None:
        ways = self._module.xclBOSyncDirection
        with _translated():
            way = ways.XCL_BO_SYNC_BO_TO_DEVICE if to_device else ways.XCL_BO_SYNC_BO_FROM_DEVICE
            self.object.sync(way, nbytes, offset)

    def free(self) -> None:
        self.object = None


@contextmanager
def _translated() -> Iterator[None]:
    """What pyxrt raises: MemoryError for buffers in 2.13, RuntimeError for nearly all else and everything later."""
    try:
        yield
    except MemoryError as error:
        raise XrtError(str(error) or "no memory", memory=True) from error
    except OSError as error:
        raise XrtError(str(error), errno=error.errno or 0) from error
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise XrtError(str(error), memory="failed to allocate" in str(error)) from error
