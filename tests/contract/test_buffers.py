# SPDX-License-Identifier: Apache-2.0
"""What every transport promises about memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from nearkv_driver.errors import BufferMisuse, OutOfDeviceMemory, TransportUnavailable
from nearkv_driver.pagestore import PageFile
from nearkv_driver.transport import Buffer, Transport

PAGE = 4096


def kv_bank(card: Transport) -> int:
    return card.info().masters["kv"]


def test_info_is_consistent(card: Transport) -> None:
    info = card.info()
    assert set(info.masters) == {"kv", "ctl", "out"}
    assert set(info.masters.values()) <= {bank.index for bank in info.banks}
    assert [bank.index for bank in info.banks] == list(range(len(info.banks)))
    assert info.p2p != bool(info.p2p_reason)
    ends = sorted((bank.base, bank.base + bank.nbytes) for bank in info.banks)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))


@pytest.mark.parametrize("nbytes", [1, 63, 4095, 4096, 4097, 1 << 20])
def test_a_new_buffer_is_zero_on_both_sides(card: Transport, nbytes: int) -> None:
    buffer = card.alloc(nbytes, kv_bank(card))
    assert buffer.nbytes == nbytes
    assert buffer.read(nbytes) == bytes(nbytes)
    buffer.write(b"\xff" * nbytes)
    buffer.sync_from_device(nbytes)
    assert buffer.read(nbytes) == bytes(nbytes)


def test_reused_memory_is_zero(card: Transport) -> None:
    first = card.alloc(1 << 16, kv_bank(card))
    first.write(b"\x55" * (1 << 16))
    first.sync_to_device(1 << 16)
    first.free()
    again = card.alloc(1 << 16, kv_bank(card))
    again.sync_from_device(1 << 16)
    assert again.read(1 << 16) == bytes(1 << 16)


def test_buffers_are_aligned_and_apart_in_their_bank(card: Transport) -> None:
    for bank in card.info().banks:
        spans = []
        for nbytes in (1, 5000, 4096):
            buffer = card.alloc(nbytes, bank.index)
            assert buffer.bank == bank.index
            assert buffer.address % PAGE == 0
            assert bank.base <= buffer.address
            assert buffer.address + nbytes <= bank.base + bank.nbytes
            spans.append((buffer.address, buffer.address + nbytes))
        spans.sort()
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def test_a_write_reaches_the_device_only_by_sync(card: Transport) -> None:
    buffer = card.alloc(128, kv_bank(card))
    buffer.write(b"new" * 10)
    buffer.sync_from_device(128)
    assert buffer.read(30) == bytes(30)


def test_the_host_sees_device_data_only_by_sync(card: Transport) -> None:
    buffer = card.alloc(8, kv_bank(card))
    buffer.write(b"device..")
    buffer.sync_to_device(8)
    buffer.write(b"hosthost")
    assert buffer.read(8) == b"hosthost"
    buffer.sync_from_device(8)
    assert buffer.read(8) == b"device.."


def test_sync_moves_only_its_range(card: Transport) -> None:
    buffer = card.alloc(16, kv_bank(card))
    buffer.write(bytes(range(1, 17)))
    buffer.sync_to_device(3, 5)
    buffer.write(bytes(16))
    buffer.sync_from_device(16)
    assert buffer.read(16) == bytes(5) + bytes([6, 7, 8]) + bytes(8)
    assert buffer.read(2, 6) == bytes([7, 8])


@pytest.mark.parametrize("data", [b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_write_takes_any_bytes(card: Transport, data: bytes | bytearray | memoryview) -> None:
    buffer = card.alloc(4, kv_bank(card))
    buffer.write(data, 1)
    assert buffer.read(4) == b"\0abc"


CALLS: dict[str, Callable[[Buffer, int, int], object]] = {
    "write": lambda b, n, at: b.write(bytes(n), at),
    "read": lambda b, n, at: b.read(n, at),
    "sync_to_device": lambda b, n, at: b.sync_to_device(n, at),
    "sync_from_device": lambda b, n, at: b.sync_from_device(n, at),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("nbytes", "offset"), [(101, 0), (1, 100), (100, 1), (1, -1), (0, 101)])
def test_ranges_outside_the_buffer_are_refused(card: Transport, call: str, nbytes: int, offset: int) -> None:
    buffer = card.alloc(100, kv_bank(card))
    with pytest.raises(BufferMisuse):
        CALLS[call](buffer, nbytes, offset)


@pytest.mark.parametrize("call", CALLS)
def test_ranges_up_to_the_last_byte_work(card: Transport, call: str) -> None:
    buffer = card.alloc(100, kv_bank(card))
    CALLS[call](buffer, 1, 99)
    CALLS[call](buffer, 0, 100)


@pytest.mark.parametrize("call", CALLS)
def test_a_freed_buffer_is_refused(card: Transport, call: str) -> None:
    buffer = card.alloc(100, kv_bank(card))
    buffer.free()
    buffer.free()
    with pytest.raises(BufferMisuse):
        CALLS[call](buffer, 1, 0)
    with pytest.raises(BufferMisuse):
        buffer.view(1)


@pytest.mark.parametrize("nbytes", [0, -1, 1 << 32])
def test_sizes_that_no_buffer_has_are_refused(card: Transport, nbytes: int) -> None:
    with pytest.raises(ValueError, match=str(nbytes)):
        card.alloc(nbytes, kv_bank(card))


def test_banks_that_do_not_exist_are_refused(card: Transport) -> None:
    for bank in (-1, len(card.info().banks)):
        with pytest.raises(ValueError, match=str(bank)):
            card.alloc(4096, bank)


def test_memory_is_finite_and_comes_back(card: Transport) -> None:
    bank = card.info().banks[kv_bank(card)]
    chunk = min(bank.nbytes // 8, (1 << 32) - PAGE)
    buffers = []
    with pytest.raises(OutOfDeviceMemory) as caught:  # noqa: PT012  the loop ends by the error
        for _ in range(bank.nbytes // chunk + 1):
            buffers.append(card.alloc(chunk, bank.index))
    assert caught.value.bank == bank.tag
    assert caught.value.needed >= chunk > caught.value.available
    for buffer in buffers[::2] + buffers[1::2]:
        buffer.free()
    again = [card.alloc(chunk, bank.index) for _ in buffers]
    assert len({b.address for b in again}) == len(buffers)


def test_full_banks_leave_others_alone(card: Transport) -> None:
    banks = card.info().banks
    if len(banks) < 2:
        pytest.skip("the card has one bank")
    card.alloc(banks[0].nbytes, 0)
    with pytest.raises(OutOfDeviceMemory):
        card.alloc(1, 0)
    assert card.alloc(1, 1).bank == 1


def test_a_normal_buffer_has_no_view(card: Transport) -> None:
    with pytest.raises(BufferMisuse):
        card.alloc(PAGE, kv_bank(card)).view(PAGE)


@pytest.mark.parametrize("call", CALLS)
def test_the_cpu_does_not_touch_p2p_buffers(p2p_card: Transport, call: str) -> None:
    buffer = p2p_card.alloc(PAGE, kv_bank(p2p_card), p2p=True)
    assert buffer.p2p
    with pytest.raises(BufferMisuse):
        CALLS[call](buffer, 1, 0)


def test_views_keep_to_the_buffer(p2p_card: Transport) -> None:
    buffer = p2p_card.alloc(2 * PAGE, kv_bank(p2p_card), p2p=True)
    assert buffer.view(PAGE, PAGE).nbytes == PAGE
    for nbytes, offset in ((2 * PAGE + 1, 0), (PAGE, PAGE + 1), (1, -1)):
        with pytest.raises(BufferMisuse):
            buffer.view(nbytes, offset)


def test_a_drive_fills_a_p2p_buffer(p2p_card: Transport, tmp_path: Path) -> None:
    with PageFile.open(tmp_path / "data", create=True) as file:
        file.grow(4 * PAGE)
        file.write(b"".join(bytes([i]) * PAGE for i in range(1, 5)), 0)
        buffer = p2p_card.alloc(3 * PAGE, kv_bank(p2p_card), p2p=True)
        file.read_into(buffer.view(2 * PAGE, PAGE), PAGE)
        pages = buffer.view(3 * PAGE)
        assert [pages[i * PAGE] for i in (1, 2)] == [2, 3]


def test_p2p_buffers_are_refused_where_p2p_does_not_work(card: Transport) -> None:
    if card.info().p2p:
        pytest.skip("P2P works")
    with pytest.raises(TransportUnavailable):
        card.alloc(PAGE, kv_bank(card), p2p=True)
