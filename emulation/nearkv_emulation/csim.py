# SPDX-License-Identifier: Apache-2.0
"""`CsimKernel`: the HLS kernel's own source, compiled by g++ and called in process. Knows no descriptor.

The call releases the interpreter lock; several threads may run kernels at the same time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

from nearkv_emulation.build import Compiler, Variant, build_kernel
from nearkv_emulation.kernel import Masters, Region

MESSAGE_NBYTES = 256


class KernelBroke(Exception):
    """The kernel broke an assumption of its own; only `Variant.CHECKED` builds notice."""


class _Region(ctypes.Structure):
    _fields_ = (("base", ctypes.c_uint64), ("nbytes", ctypes.c_uint64), ("memory", ctypes.c_void_p))


class CsimKernel:
    """The HLS implementation of `nearkv_emulation.kernel.Kernel`; keeps nothing between runs.

    Builds the library on first use (see `build`); raises BuildError when that fails.
    """

    def __init__(
        self, cache: Path | None = None, variant: Variant = Variant.FAST, compiler: Compiler | None = None
    ) -> None:
        self.library = build_kernel(cache, variant, compiler)
        self._run = ctypes.CDLL(str(self.library)).nearkv_csim_run
        self._run.restype = ctypes.c_int
        self._run.argtypes = (
            ctypes.POINTER(_Region),
            ctypes.POINTER(ctypes.c_uint64),
            ctypes.POINTER(ctypes.c_uint64),
            ctypes.c_char_p,
            ctypes.c_uint64,
        )

    def run(self, masters: Masters, kv: int, ctl: int, out: int) -> None:
        """Processes the list at `ctl`. Raises KernelBroke in builds that check themselves."""
        per_master = (masters.kv, masters.ctl, masters.out)
        regions = [_region(r) for master in per_master for r in master]
        counts = (ctypes.c_uint64 * 3)(*map(len, per_master))
        registers = (ctypes.c_uint64 * 3)(kv, ctl, out)
        message = ctypes.create_string_buffer(MESSAGE_NBYTES)
        if self._run(_array(regions), counts, registers, message, MESSAGE_NBYTES) != 0:
            raise KernelBroke(message.value.decode())


def _region(region: Region) -> _Region:
    memory = region.memory
    if not memory.flags.c_contiguous or not memory.flags.writeable or memory.ndim != 1:
        raise ValueError("a region's memory is a contiguous, writable array of one dimension")
    return _Region(region.base, memory.nbytes, memory.ctypes.data)


def _array(regions: Sequence[_Region]) -> ctypes.Array[_Region]:
    return (_Region * len(regions))(*regions)
