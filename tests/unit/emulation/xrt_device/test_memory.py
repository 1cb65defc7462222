# SPDX-License-Identifier: Apache-2.0
"""Device memory: banks at addresses, ranges that leave them, and P2P buffers as files that both sides see."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from nearkv_driver.xclbin import Bank
from nearkv_driver.xclbin.tables import BankType
from nearkv_emulation.xrt_device.memory import DeviceMemory
from nearkv_emulation.xrt_device.model import MemoryFault
from nearkv_emulation.xrt_device.p2p_files import P2pFiles

BASE, SIZE = 0x40_0000_0000, 1 << 20
# Two that touch, one apart, one of the host.
BANKS = (
    Bank("HBM[1]", BASE + SIZE, SIZE, BankType.HBM),
    Bank("HBM[0]", BASE, SIZE, BankType.HBM),
    Bank("DDR[0]", 0x80_0000_0000, SIZE),
    Bank("HOST[0]", 0x20_0000_0000, SIZE, BankType.HOST),
)


class Host:
    """Memory of the host: says what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []

    def read(self, address: int, nbytes: int) -> bytes:
        self.asked.append(("read", address, nbytes))
        return bytes(nbytes)

    def write(self, address: int, data: bytes | memoryview) -> None:
        self.asked.append(("write", address, len(data)))


@pytest.fixture
def files(tmp_path: Path) -> Iterator[P2pFiles]:
    with P2pFiles([tmp_path]) as files:
        yield files


@pytest.fixture
def memory(files: P2pFiles) -> Iterator[DeviceMemory]:
    memory = DeviceMemory(BANKS, files, Host())
    yield memory
    memory.close()


def test_memory_keeps_what_is_written_and_begins_as_zeroes(memory: DeviceMemory) -> None:
    assert memory.read(BASE, 100) == bytes(100)
    memory.write(BASE + 7, b"hello")
    memory.write(0x80_0000_0000, b"other")
    assert memory.read(BASE + 6, 7) == b"\0hello\0"


def test_banks_that_touch_are_one_range(memory: DeviceMemory) -> None:
    memory.write(BASE + SIZE - 2, b"four")
    assert memory.read(BASE + SIZE - 2, 4) == b"four"
    (region,) = memory.regions(BANKS[:2])
    assert (region.base, len(region.memory)) == (BASE, 2 * SIZE)
    assert bytes(region.memory[SIZE - 2 : SIZE + 2]) == b"four"
    region.memory[5] = 9
    assert memory.read(BASE + 5, 1) == b"\x09"


def test_a_kernel_sees_only_the_banks_that_it_is_linked_to(memory: DeviceMemory) -> None:
    (region,) = memory.regions([BANKS[0]])
    assert (region.base, len(region.memory)) == (BASE + SIZE, SIZE)
    assert memory.regions([BANKS[3]]) == []


@pytest.mark.parametrize(
    ("address", "nbytes"), [(BASE - 1, 2), (BASE + 2 * SIZE - 1, 2), (0, 1), (BASE + 2 * SIZE, 1), (1 << 64, 1)]
)
def test_what_leaves_the_banks_is_refused_by_name(memory: DeviceMemory, address: int, nbytes: int) -> None:
    with pytest.raises(MemoryFault, match=f"{nbytes} bytes at {address:#x}; the card has memory at 0x4000000000 to"):
        memory.read(address, nbytes)
    with pytest.raises(MemoryFault):
        memory.write(address, bytes(nbytes))


def test_memory_of_the_host_is_asked_of_the_host(files: P2pFiles) -> None:
    host = Host()
    memory = DeviceMemory(BANKS, files, host)
    memory.read(0x20_0000_0010, 4)
    memory.write(0x20_0000_0020, b"abc")
    assert host.asked == [("read", 0x20_0000_0010, 4), ("write", 0x20_0000_0020, 3)]
    memory.close()
    without = DeviceMemory(BANKS, files)
    with pytest.raises(MemoryFault):
        without.read(0x20_0000_0010, 4)
    without.close()


def test_a_p2p_buffer_is_one_file_for_both_sides(memory: DeviceMemory) -> None:
    address, nbytes = BASE + 8192, 5000
    memory.write(address - 1, b"\x01\x02\x03")
    path = memory.add_p2p(address, nbytes)
    assert memory.read(address - 1, 3) == b"\x01\0\0"  # a fresh file; what is before it stays
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 8192) as host:
        host[4999] = 7
        assert memory.read(address + 4999, 1) == b"\x07"
        (region,) = memory.regions(BANKS[:2])
        region.memory[8192 + 10] = 8
        assert host[10] == 8
    memory.free(address)
    assert not os.path.exists(path)
    assert memory.read(address, nbytes) == bytes(nbytes)


@pytest.mark.parametrize(
    ("address", "sentence"),
    [(BASE + 4096, "lies in the one at"), (BASE + 100, "a multiple of 4096"), (BASE + 2 * SIZE, "the card has memory")],
)
def test_p2p_buffers_that_cannot_be_are_refused(memory: DeviceMemory, address: int, sentence: str) -> None:
    memory.add_p2p(BASE, 8192)
    with pytest.raises(MemoryFault, match=sentence):
        memory.add_p2p(address, 100)


def test_freeing_a_buffer_that_is_none_changes_nothing(memory: DeviceMemory) -> None:
    memory.write(BASE, b"kept")
    memory.free(BASE)
    assert memory.read(BASE, 4) == b"kept"


def test_files_and_their_folder_go(tmp_path: Path) -> None:
    with P2pFiles([tmp_path]) as files:
        memory = DeviceMemory(BANKS, files)
        path = Path(memory.add_p2p(BASE, 4096))
        assert path.stat().st_mode & 0o777 == 0o600
        memory.close()
        assert not path.exists()
    assert list(tmp_path.iterdir()) == []


def test_the_first_place_that_takes_files_is_used(tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.mkdir()
    with P2pFiles([tmp_path / "missing", good]) as files:
        file = files.make(0, 4096)
        file.close()
        assert Path(file.path).is_relative_to(good)
    with P2pFiles([tmp_path / "missing"]) as files, pytest.raises(MemoryFault, match="missing: No such file"):
        files.make(0, 4096)


def test_a_full_file_system_is_noticed_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are sparse: what earlier ones may still fill is not free."""
    room = os.statvfs_result((4096, 4096, 100, 3, 3, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: room)
    with P2pFiles([tmp_path]) as files:
        files.make(0, 8192).close()
        with pytest.raises(MemoryFault, match="room for 4096 bytes of P2P buffers; 8192 are wanted"):
            files.make(8192, 8192)
