# SPDX-License-Identifier: Apache-2.0
"""Host memory that begins at a page, as direct I/O needs it. Opens no file."""

from __future__ import annotations

import mmap
from contextlib import suppress

import numpy as np

from nearkv_driver.regmap import PAGE_BYTES


def aligned_buffer(nbytes: int) -> memoryview:
    """Zeroed, writable, page-aligned memory; freed with its last view."""
    if nbytes <= 0:
        raise ValueError(f"a buffer of {nbytes} bytes; it has at least 1")
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    ask_for_huge_pages(memory)
    return memoryview(memory)[:nbytes]


def ask_for_huge_pages(memory: mmap.mmap) -> None:
    """A direct read into huge pages reaches the drive in fewer, larger pieces (benchmarks/volume_read.py). Without
    them everything works the same, only slower, so a kernel that has none is no error."""
    with suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)


def page_aligned(view: memoryview) -> memoryview | None:
    """The bytes of a view whose memory begins at a page, else None."""
    data = view.cast("B")
    if data.nbytes and np.frombuffer(data, np.uint8).ctypes.data % PAGE_BYTES:
        return None
    return data
