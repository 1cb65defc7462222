# SPDX-License-Identifier: Apache-2.0
"""Tries the way from a drive into a card's memory before it is trusted: right bytes, and how fast.

Writes one file into the folder and removes it. Decides nothing: it says what was found.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nearkv_driver.errors import DriverError, StorageError
from nearkv_driver.pagestore import PageFile, aligned_buffer
from nearkv_driver.peer_errors import advice
from nearkv_driver.regmap import PAGE_BYTES
from nearkv_driver.syscalls import Syscalls
from nearkv_driver.transport import Buffer

_NBYTES = 4 << 20
# Pages that the CPU compares: reading a card's memory through its BAR is slow.
_COMPARED = tuple(page * (_NBYTES // PAGE_BYTES - 1) // 7 for page in range(8))
SLOW = 3.0


@dataclass(frozen=True)
class PathRates:
    """Bytes per second from the drive into card memory: by P2P, and through host memory."""

    p2p: float
    host: float

    @property
    def slow(self) -> bool:
        return self.p2p * SLOW < self.host

    def __str__(self) -> str:
        return f"P2P {self.p2p / 1e6:.0f} MB/s, through host memory {self.host / 1e6:.0f} MB/s"


@dataclass(frozen=True)
class PathCheck:
    """`reason` says, with what to do, why P2P must not be used; "" when it works, and then `rates` are there."""

    reason: str
    rates: PathRates | None = None


def check_path(
    alloc: Callable[[int, bool], Buffer],
    folder: Path,
    *,
    direct: bool = True,
    calls: Syscalls | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> PathCheck:
    """`alloc` gives a buffer of so many bytes, P2P or not; both are freed."""
    pattern = os.urandom(_NBYTES)
    target: Buffer | None = None
    host: Buffer | None = None
    try:
        with (
            tempfile.TemporaryDirectory(prefix=".nearkv-p2p-", dir=folder) as private,
            PageFile.open(Path(private) / "pattern", create=True, direct=direct, syscalls=calls) as file,
        ):
            file.grow(_NBYTES)
            file.write(pattern, 0)
            target, host = alloc(_NBYTES, True), alloc(_NBYTES, False)
            view = target.view(_NBYTES)
            began_s = clock()
            file.read_into(view, 0)
            p2p_s = clock() - began_s
            refusal = file.peer.refusal
            reason = f"{file.path}: {refusal}: {advice(refusal)}" if refusal else _compare(view, pattern)
            if reason:
                return PathCheck(reason)
            memory = aligned_buffer(_NBYTES)
            began_s = clock()
            file.read_into(memory, 0)
            host.write(memory)
            host.sync_to_device(_NBYTES)
            host_s = clock() - began_s
    except StorageError as error:
        return PathCheck(f"{error}: {advice(error.errno_name)}")
    except (DriverError, OSError) as error:
        return PathCheck(f"the way from the drive into the card could not be tried: {error}")
    finally:
        for buffer in (target, host):
            if buffer is not None:
                buffer.free()
    return PathCheck("", PathRates(_NBYTES / max(p2p_s, 1e-9), _NBYTES / max(host_s, 1e-9)))


def _compare(view: memoryview, pattern: bytes) -> str:
    for page in _COMPARED:
        start = page * PAGE_BYTES
        found = bytes(view[start : start + PAGE_BYTES])
        if found == pattern[start : start + PAGE_BYTES]:
            continue
        if found == b"\xff" * PAGE_BYTES:
            return (
                "what a drive wrote into the card's memory reads as all ones: its BAR cannot be reached. Look at the "
                "PCIe link, ACS and the IOMMU (kernel option iommu=pt, or off)"
            )
        return (
            f"what a drive wrote into the card's memory reads as other bytes (page {page}): do not use P2P on this "
            "machine before ACS and IOMMU (kernel option iommu=pt, or off) have been looked at"
        )
    return ""
