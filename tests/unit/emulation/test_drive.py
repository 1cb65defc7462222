# SPDX-License-Identifier: Apache-2.0
"""System calls that take as long as the modelled drive: bytes and errors pass unchanged, time goes by."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from nearkv_driver.errors import StorageError
from nearkv_driver.pagestore import PageFile, aligned_buffer
from nearkv_driver.registry import open_drive, parse_url
from nearkv_driver.syscalls import SystemCalls
from nearkv_emulation.drive import ThrottledSyscalls, drive_of
from nearkv_emulation.drive_model import SMARTSSD, Direction, Drive
from nearkv_emulation.storage_faults import Fails, FaultySyscalls, Short

MIB = 1 << 20
SLOW = Drive(Direction(1.0 * MIB), Direction(0.5 * MIB))


class HandClock:
    """Time that passes only when somebody waits for it."""

    def __init__(self) -> None:
        self.time = 50.0

    def now(self) -> float:
        return self.time

    def wait_until(self, moment: float) -> None:
        self.time = max(self.time, moment)


def test_bytes_pass_and_time_goes_by(tmp_path: Path) -> None:
    clock = HandClock()
    calls = ThrottledSyscalls(SystemCalls(), SLOW, clock)
    with PageFile.open(tmp_path / "pages", create=True, syscalls=calls) as file:
        file.grow(2 * MIB)
        began = clock.time
        data = bytes(range(256)) * (MIB // 256)
        file.write(data, MIB)
        assert clock.time - began == pytest.approx(2.0)
        file.sync()
        back = aligned_buffer(MIB)
        file.read_into(back, MIB)
        assert clock.time - began == pytest.approx(3.0)
        assert back == data
    assert (calls.requests, calls.late) == (3, 0)  # with the probe at open


def test_a_completed_short_read_and_a_failed_one(tmp_path: Path) -> None:
    clock, faulty = HandClock(), FaultySyscalls(SystemCalls())
    with PageFile.open(tmp_path / "pages", create=True, syscalls=ThrottledSyscalls(faulty, SLOW, clock)) as file:
        file.grow(MIB)
        faulty.faults = [Short("preadv", 4096, nth=faulty.calls["preadv"] + 1)]
        file.read_into(aligned_buffer(MIB), 0)
        faulty.faults = [Fails("preadv", first=faulty.calls["preadv"] + 1, last=None)]
        with pytest.raises(StorageError, match="EIO"):
            file.read_into(aligned_buffer(4096), 0)


def test_a_system_that_is_slower_than_the_drive_is_counted(tmp_path: Path) -> None:
    clock = HandClock()

    class Sluggish(SystemCalls):
        def preadv(self, fd: int, buffer: memoryview, offset: int) -> int:
            clock.time += 60.0
            return super().preadv(fd, buffer, offset)

    calls = ThrottledSyscalls(Sluggish(), SLOW, clock)
    with PageFile.open(tmp_path / "pages", create=True, syscalls=calls) as file:
        file.grow(MIB)
        began = clock.time
        file.read_into(aligned_buffer(MIB), 0)
        assert clock.time == began + 60.0
        assert calls.late == 1


def test_requests_of_several_threads_share_the_drive(tmp_path: Path) -> None:
    """Eight reads that arrive at one moment: all of them have ended after eight times the time of one."""
    ends: list[float] = []

    class Together(HandClock):
        def now(self) -> float:
            return 50.0

        def wait_until(self, moment: float) -> None:
            ends.append(moment)

    clock = Together()
    with PageFile.open(tmp_path / "pages", create=True) as file:
        file.grow(MIB)
    calls = ThrottledSyscalls(SystemCalls(), SLOW, clock)
    fd = calls.open(str(tmp_path / "pages"), 0)
    threads = [threading.Thread(target=calls.preadv, args=(fd, aligned_buffer(MIB), 0)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls.close(fd)
    assert sorted(ends) == [51.0 + i for i in range(8)]


def test_urls_name_drives() -> None:
    assert drive_of(parse_url("sw_emu:0")) is None
    assert drive_of(parse_url("sw_emu:0?drive=smartssd")) is SMARTSSD
    own = drive_of(parse_url("sw_emu:0?drive=read:3G,write:1.6G,latency:80"))
    assert own is not None
    assert own.read.alone_s(4096) == pytest.approx(80e-6 + 4096 / 3e9)
    assert (own.write.rate, own.endurance_nbytes) == (1.6e9, 0)
    calls = SystemCalls()
    assert open_drive(parse_url("sw_emu:0"), calls).calls is calls
    drive = open_drive(parse_url("sw_emu:0?drive=smartssd"), calls)
    assert isinstance(drive.calls, ThrottledSyscalls)
    assert drive.endurance_nbytes == 7_008 * 10**12
