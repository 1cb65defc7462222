# SPDX-License-Identifier: Apache-2.0
"""Measures this machine for the planner: a drive, memory, an emulated card, torch's arithmetic; writes descriptions.

What it cannot see (prices, ratings, a card's own transfers) keeps a default that the file calls an assumption. It plans
nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from nearkv_driver.pagestore import aligned_buffer

from nearkv.device_io import device_bytes, since
from nearkv.errors import UserError, one_line
from nearkv.kvstore import KVStore
from nearkv.layout import ModelLayout
from nearkv.models.measure import BUSY, Arithmetic, Clock, arithmetic
from nearkv.requests import Requests

SIZES = (4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
FILE_NBYTES = 128 << 20
IN_FLIGHT = 16
CARD = "sw_emu:0?dram=256M"
_LAYOUT = ModelLayout("calibration", 1, 9, 3, 64)
_FEW = 20  # tokens, where the bytes of K and V do not count


@dataclass(frozen=True)
class DriveSpeed:
    """Bytes per second: with many 4 MiB requests, and one at a time by size. `direct`: the page cache was left out.
    `device_share`: of the bytes read, those that the system counts as read from a device; None where it cannot say."""

    capacity: float
    read: float
    write: float
    read_by_size: tuple[tuple[int, float], ...]
    write_by_size: tuple[tuple[int, float], ...]
    direct: bool
    device_share: float | None = None


@dataclass(frozen=True)
class Measured:
    """`copy_s`: bytes per second of a copy in host memory."""

    drive: DriveSpeed
    copy_s: float
    kernel: KernelSpeed
    arithmetic: Arithmetic


def measure(
    folder: Path, device: str, clock: Clock = time.perf_counter, tell: Callable[[str], object] = lambda _: None
) -> Measured:
    """Half a minute or so. `folder`: on the drive. `tell` hears what is measured now. The emulated kernel and torch are
    timed by `clock`, the drive by wall time."""
    tell("drive")
    drive = drive_speed(folder)
    tell("memory")
    copy = copy_rate(clock)
    tell("emulated kernel")
    kernel = kernel_speed(clock)
    tell("torch")
    return Measured(drive, copy, kernel, arithmetic(device, clock, CARD))


def drive_speed(folder: Path) -> DriveSpeed:
    """Reads and writes a file in `folder` and removes it. UserError where it cannot."""
    path = folder / f".nearkv-calibrate-{os.getpid()}"
    try:
        room = os.statvfs(folder)
        if room.f_bavail * room.f_frsize < 2 * FILE_NBYTES:
            raise UserError(f"folder {folder}: {2 * FILE_NBYTES >> 20} MiB of room are needed")
        try:
            fd, direct = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600), True
        except OSError:
            path.unlink(missing_ok=True)  # Linux makes the file before a file system refuses direct I/O
            fd, direct = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), False
        try:
            return _speed(fd, direct, float(room.f_blocks * room.f_frsize))
        finally:
            os.close(fd)
            path.unlink()
    except OSError as error:
        raise UserError(f"folder {folder}: {one_line(error)}") from error


def _speed(fd: int, direct: bool, capacity: float) -> DriveSpeed:
    top = SIZES[-1]
    buffers = [aligned_buffer(top) for _ in range(IN_FLIGHT)]
    offsets = range(0, FILE_NBYTES, top)

    def together(move: Callable[[int, memoryview], None]) -> float:
        with closing(Requests("calibration", IN_FLIGHT)) as requests:
            began = time.perf_counter()
            requests.run([partial(move, at, buffers[n % IN_FLIGHT]) for n, at in enumerate(offsets)])
            return FILE_NBYTES / (time.perf_counter() - began)

    def read(at: int, buffer: memoryview) -> None:
        if os.preadv(fd, [buffer], at) != buffer.nbytes:
            raise OSError(f"a short read at {at}")

    def write(at: int, buffer: memoryview) -> None:
        if os.pwritev(fd, [buffer], at) != buffer.nbytes:
            raise OSError(f"a short write at {at}")

    def alone(move: Callable[[int, memoryview], None], size: int) -> float:
        times = []
        count = max(4, min(32, (16 << 20) // size))
        for i in range(count):
            began = time.perf_counter()
            move((i * 7919 * size) % (FILE_NBYTES - top) // 4096 * 4096, buffers[0][:size])
            times.append(time.perf_counter() - began)
        return size / median(times)

    writing = together(write)
    os.fsync(fd)
    before = device_bytes()
    reading = together(read)
    counted = since(before)
    share = None if counted is None else counted.read / FILE_NBYTES
    reads, writes = (tuple((size, alone(move, size)) for size in SIZES) for move in (read, write))
    return DriveSpeed(capacity, reading, writing, reads, writes, direct, share)


def copy_rate(clock: Clock) -> float:
    """Bytes per second of a copy in memory."""
    source = np.ones(64 << 20, np.uint8)
    target = np.empty_like(source)
    times = []
    for _ in range(5):
        began = clock()
        np.copyto(target, source)
        times.append(clock() - began)
    return source.nbytes / max(min(times), 1e-9)


@dataclass(frozen=True)
class KernelSpeed:
    """nbytes_s: K and V per second of an emulated card. job_s: what each job of a list takes more; host_job_s: the
    host's own share of that."""

    nbytes_s: float
    job_s: float
    host_job_s: float


def kernel_speed(clock: Clock, long: int = 4096, short: int = 512, batch: int = 16) -> KernelSpeed:
    """From three calls: the longer one's more bytes over its more time, the larger batch's more time over its jobs."""
    (one, _), (many, _) = _call_s(clock, 1, short), _call_s(clock, 1, long)
    if many <= one:
        raise UserError(f"{long} tokens took {many * 1e3:.2f} ms and {short} tokens {one * 1e3:.2f} ms: {BUSY}")
    nbytes_s = _LAYOUT.kv_bytes_per_token * (long - short) / (many - one)
    few, few_host = _call_s(clock, 1, _FEW)
    all_, all_host = _call_s(clock, batch, _FEW)
    jobs = (batch - 1) * _LAYOUT.kv_heads
    return KernelSpeed(nbytes_s, max(0.0, all_ - few) / jobs, max(0.0, all_host - few_host) / jobs)


def _call_s(clock: Clock, batch: int, tokens: int) -> tuple[float, float]:
    """(a call by `clock`, CPU time of the calling thread) over `batch` sequences of so many tokens."""
    random = np.random.default_rng(1)
    times, own = [], []
    with KVStore.open(_LAYOUT, [CARD]) as store:
        sequences = [store.add_sequence(more=more) for more in reversed(range(batch))]
        heads, size = _LAYOUT.kv_heads, _LAYOUT.head_size
        k, v = (random.normal(size=(batch, heads, tokens, size)).astype(np.float16) for _ in range(2))
        store.append(0, sequences, k, v)
        for _ in range(11):
            q = random.normal(size=(batch, _LAYOUT.query_heads, 1, size)).astype(np.float32)
            row = random.normal(size=(batch, heads, 1, size)).astype(np.float16)
            began, began_here = clock(), time.thread_time()
            store.attend(0, sequences, q, row, row, scale=0.125)
            own.append(time.thread_time() - began_here)
            times.append(clock() - began)
    return median(times), median(own)
