# SPDX-License-Identifier: Apache-2.0
"""Open hw_emu cards with the simulated kernel in reach, and the results that they must give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from nearkv_driver.commands import AttendJob, Result, segments
from nearkv_driver.device import NearDevice
from nearkv_driver.registry import open_transport
from nearkv_driver.transport import Buffer
from nearkv_emulation.faults import HoleInMemory
from nearkv_emulation.hw_emu import HwEmuCard
from nearkv_emulation.kernel import Masters

from tests.support.cards import SMALL, job_over, stored

SMALL_RTL = "hw_emu:test?dram=16M"
Bits = tuple[bytes, ...]


def rtl_card(options: str = "") -> HwEmuCard:
    card = open_transport(f"{SMALL_RTL}{options}")
    assert isinstance(card, HwEmuCard)
    return card


@contextmanager
def rtl_device(options: str = "", **limits: Any) -> Iterator[tuple[NearDevice, HwEmuCard]]:
    """A device on a small hw_emu card."""
    card = rtl_card(options)
    with NearDevice.open(card, **limits) as device:
        yield device, card


def bits(results: Sequence[Result]) -> Bits:
    """What must be equal: outputs, sums and bins, to the bit."""
    return tuple(part.tobytes() for result in results for part in (result.o, result.l, result.t))


def jobs_over(buffer: Buffer, tail: Buffer, tokens: int) -> list[AttendJob]:
    """A checked-nothing job over stored tokens, one over new rows that go to the tail, and a raw one over both."""
    new = job_over(None, rows=2).q.astype(np.float16)
    first = -(-tokens // 16) * 16
    plain = job_over(buffer, tokens)
    added = job_over(None, limits=((0, first + 2),), new_k=new, new_v=new, new_first=first)
    added = AttendJob(**{**vars(added), "tail_k_addr": tail.address, "tail_v_addr": tail.address + 4096})
    return [plain, added, job_over(buffer, tokens, rows=9, raw=True)]


def attended(device: NearDevice, tokens: int, seed: int = 3) -> Bits:
    """The results of `jobs_over` random tokens, and the tail that they leave."""
    buffer, _, _ = stored(device, tokens, seed=seed)
    tail = device.alloc(8192)
    results = bits(device.attend(jobs_over(buffer, tail, tokens)))
    tail.sync_from_device(8192)
    left = tail.read(8192)
    buffer.free()
    tail.free()
    return (*results, left)


@cache
def reference(tokens: int, seed: int = 3) -> Bits:
    """The same by the NumPy model."""
    with NearDevice.open(SMALL) as device:
        return attended(device, tokens, seed)


def segment_job(k: int, v: int, tokens: int, **changes: Any) -> AttendJob:
    """A job over one segment at these addresses."""
    return job_over(None, limits=((0, tokens),), segments=segments([(tokens, 0, k, v, 0)]), **changes)


class _Capture:
    """A kernel that keeps what it could reach and computes nothing."""

    def __init__(self) -> None:
        self.masters: Masters | None = None

    def run(self, masters: Masters, kv: int, ctl: int, out: int) -> None:
        self.masters = masters


@contextmanager
def hole(card: HwEmuCard, master: str, address: int) -> Iterator[None]:
    """While open, the word at `address` is answered with DECERR on one master."""
    whole, seen = card.rtl.masters, _Capture()
    assert whole is not None
    HoleInMemory(seen, master, address, 64).run(whole, 0, 0, 0)
    assert seen.masters is not None
    card.rtl.map(seen.masters)
    try:
        yield
    finally:
        card.rtl.map(whole)
