# SPDX-License-Identifier: Apache-2.0
"""The few things of XRT that a card needs, as Protocols. Implemented by `pyxrt_api`, `native_api` and `pynq`.

Definitions only. Whatever goes wrong inside XRT is an XrtError; nothing here knows registers or the driver's errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from pathlib import Path
from typing import Protocol


class XrtError(Exception):
    """What XRT said; `errno` where it gave one, else 0; `memory` when it could not give memory."""

    def __init__(self, text: str, *, errno: int = 0, memory: bool = False) -> None:
        super().__init__(text)
        self.errno, self.memory = errno, memory


class RunState(IntEnum):
    """`enum ert_cmd_state` of ert.h."""

    NEW = 1
    QUEUED = 2
    RUNNING = 3
    COMPLETED = 4
    ERROR = 5
    ABORT = 6
    SUBMITTED = 7
    TIMEOUT = 8
    NORESPONSE = 9
    SKERROR = 10
    SKCRASHED = 11


class Query(Enum):
    """What can be asked of a device; values are the names in `xrt_info_device`."""

    BDF = "bdf"
    NAME = "name"
    INTERFACE = "interface_uuid"


@dataclass(frozen=True)
class ApiInfo:
    """`name`: which binding; `version`: of XRT, "" where unknown; `note`: why this binding, for a person to read."""

    name: str
    version: str
    note: str = ""


class XrtBo(Protocol):
    """A buffer object."""

    @property
    def address(self) -> int:
        """64 bits."""
        ...

    def map(self) -> memoryview:
        """The host's view of all its bytes; it keeps the memory alive, also after `free`."""
        ...

    def sync(self, nbytes: int, offset: int, *, to_device: bool) -> None: ...

    def free(self) -> None: ...


class XrtRun(Protocol):
    """One reusable start of a kernel."""

    def set_buffer(self, index: int, bo: XrtBo) -> None: ...

    def start(self) -> None: ...

    def wait(self, milliseconds: int) -> None:
        """Returns when the run has ended or after about `milliseconds`, at least 1; says nothing about its success."""
        ...

    def state(self) -> int:
        """A RunState, or a number that a newer XRT has added."""
        ...

    def free(self) -> None: ...


class XrtKernel(Protocol):
    """A compute unit that XRT starts."""

    def group(self, index: int) -> int:
        """The memory group that an argument is linked to."""
        ...

    def run(self) -> XrtRun: ...

    def free(self) -> None: ...


class XrtRegisters(Protocol):
    """A compute unit whose registers are ours alone."""

    def read(self, offset: int) -> int: ...

    def write(self, offset: int, value: int) -> None: ...

    def free(self) -> None: ...


class XrtDevice(Protocol):
    """An open card."""

    def query(self, what: Query) -> str:
        """ "" where this XRT cannot say."""
        ...

    def loaded(self) -> str:
        """UUID of the binary on the card, lower case with dashes; "" when there is none or XRT cannot say."""
        ...

    def load(self, xclbin: Path) -> None:
        """Loads a binary, or joins those who use it already."""
        ...

    def kernel(self, name: str) -> XrtKernel:
        """`KERNEL:{UNIT}` of the binary that `load` loaded."""
        ...

    def registers(self, name: str) -> XrtRegisters:
        """The same unit, exclusively. Only where `XrtApi.has_registers`."""
        ...

    def alloc(self, nbytes: int, group: int, *, p2p: bool) -> XrtBo: ...

    def close(self) -> None: ...


class XrtApi(Protocol):
    """One binding of XRT."""

    has_registers: bool

    def info(self) -> ApiInfo: ...

    def open(self, target: int | str) -> XrtDevice:
        """By index or by PCI address (`0000:3b:00.1`)."""
        ...
