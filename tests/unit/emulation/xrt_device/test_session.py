# SPDX-License-Identifier: Apache-2.0
"""The shim's calls on a card, message by message: what is answered, and what is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from nearkv_emulation.xrt_device.card import EmulatedBoard, Plan, UnitFailed
from nearkv_emulation.xrt_device.messages import Call
from nearkv_emulation.xrt_device.model import MemoryFault
from nearkv_emulation.xrt_device.p2p_files import P2pFiles
from nearkv_emulation.xrt_device.session import Session
from nearkv_emulation.xrt_device.wire import Fields, ProtocolError, pack

from tests.support import xrt_toy
from tests.support.xrt_toy import BASE, FORMS

HS = FORMS["add_hs"][2]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    plan = Plan.read(xrt_toy.write_xclbin(tmp_path))
    with (
        P2pFiles([tmp_path]) as files,
        EmulatedBoard(plan, dict.fromkeys(FORMS, xrt_toy.make), files) as board,
    ):
        yield Session(board)


def ask(session: Session, call: int, *fields: tuple[int, int | bytes]) -> Fields:
    return Fields.parse(session.answer(call, bytearray(pack(fields))))


def write_register(session: Session, address: int, value: int) -> None:
    data = value.to_bytes(4, "little")
    assert ask(session, Call.WRITE_REGISTERS, (2, address), (3, 4), (4, data)).number(1) == 1


def read_register(session: Session, address: int) -> int:
    return int.from_bytes(ask(session, Call.READ_REGISTERS, (2, address), (3, 4)).data(2), "little")


def test_the_offset_of_a_partial_transfer_is_added(session: Session) -> None:
    sent = ask(session, Call.TO_DEVICE, (2, b"?"), (3, BASE), (4, b"abcd"), (5, 4), (6, 100))
    assert sent.number(1) == 4
    got = ask(session, Call.FROM_DEVICE, (2, b"?"), (3, b"????"), (4, BASE + 50), (5, 4), (6, 50))
    assert (got.number(1), bytes(got.data(2))) == (4, b"abcd")
    assert (session.counters.to_device_nbytes, session.counters.from_device_nbytes) == (4, 4)


def test_a_kernel_runs_from_its_registers(session: Session) -> None:
    words = np.arange(10, dtype=np.uint64)
    ask(session, Call.TO_DEVICE, (3, BASE), (4, words.tobytes()), (5, 80), (6, 0))
    for offset, value in ((0x10, BASE & 0xFFFFFFFF), (0x14, BASE >> 32), (0x1C, 4096), (0x20, BASE >> 32)):
        write_register(session, HS + offset, value)
    write_register(session, HS + 0x28, 10)
    write_register(session, HS + 0x30, 3)
    write_register(session, HS, 1)
    while not read_register(session, HS) & 2:
        pass
    got = ask(session, Call.FROM_DEVICE, (4, BASE + 4096), (5, 80), (6, 0)).data(2)
    assert np.array_equal(np.frombuffer(got, np.uint64), words + np.uint64(3))


def test_several_words_of_registers_in_one_call(session: Session) -> None:
    data = bytes.fromhex("0102030405060708")
    ask(session, Call.WRITE_REGISTERS, (2, HS + 0x10), (3, 8), (4, data))
    assert bytes(ask(session, Call.READ_REGISTERS, (2, HS + 0x10), (3, 8)).data(2)) == data


def test_only_p2p_buffers_get_a_file(session: Session) -> None:
    assert not ask(session, Call.ALLOC, (1, BASE), (2, 4096), (3, 0)).all(2)
    assert not ask(session, Call.ALLOC, (1, BASE + 4096), (2, 4096)).all(2)
    path = Path(bytes(ask(session, Call.ALLOC, (1, BASE + 8192), (2, 4096), (3, 1)).data(2)).decode())
    assert path.stat().st_size == 4096
    assert ask(session, Call.FREE, (1, BASE + 8192)).number(1) == 1
    assert not path.exists()


def poll(session: Session) -> None:
    for _ in range(1000):
        read_register(session, HS)


@pytest.mark.parametrize("call", [Call.ENVIRONMENT, 21, 99])
def test_calls_that_ask_for_nothing_are_answered(session: Session, call: int) -> None:
    assert ask(session, call, (3, b"")).number(1) == 1


def test_close_ends_the_session(session: Session) -> None:
    assert not session.closed
    assert ask(session, Call.CLOSE, (2, b"junk"), (3, 0)).number(1) == 1
    assert session.closed


@pytest.mark.parametrize(
    ("call", "fields", "sentence"),
    [
        (Call.ALLOC, [(1, BASE)], r"call ALLOC of \d+ bytes: field 2 is missing"),
        (Call.ALLOC, [(1, b"x"), (2, 1)], "call ALLOC of .* field 1 holds 1 bytes; a number is expected"),
        (Call.TO_DEVICE, [(3, BASE), (4, b"ab"), (5, 3), (6, 0)], "3 bytes for 0x4000000000 in a message with 2 bytes"),
        (Call.WRITE_REGISTERS, [(2, HS), (3, 8), (4, b"abcd")], "8 bytes for 0x1800000 in a message with 4"),
        (22, [(1, BASE)], "call COPY_TO_FILE of .* buffers of another device are not emulated"),
    ],
)
def test_damaged_messages_are_refused(
    session: Session, call: int, fields: list[tuple[int, int | bytes]], sentence: str
) -> None:
    with pytest.raises(ProtocolError, match=sentence):
        ask(session, call, *fields)


@pytest.mark.parametrize(
    ("address", "nbytes", "sentence"),
    [
        (HS - 4, 4, "4 bytes of registers at 0x17ffffc; there are add_hs_1 at 0x1800000 to 0x1801000, add_chain_1"),
        (HS + 0xFFC, 8, "8 bytes of registers at 0x1800ffc"),
        (HS + 2, 4, "words of 4 bytes"),
        (HS, 2, "words of 4 bytes"),
    ],
)
def test_registers_outside_a_window_are_refused(session: Session, address: int, nbytes: int, sentence: str) -> None:
    with pytest.raises(MemoryFault, match=sentence):
        ask(session, Call.READ_REGISTERS, (2, address), (3, nbytes))


def test_memory_outside_the_banks_is_refused(session: Session) -> None:
    with pytest.raises(MemoryFault, match="the card has memory at"):
        ask(session, Call.FROM_DEVICE, (4, 16), (5, 80), (6, 0))
    with pytest.raises(ProtocolError, match="0x10000000000000000"):
        ask(session, Call.TO_DEVICE, (3, (1 << 64) - 1), (4, b"a"), (5, 1), (6, 1))


def test_a_kernel_that_fails_is_named(session: Session) -> None:
    write_register(session, HS, 1)  # no words to add to
    with pytest.raises(UnitFailed, match="unit add_hs_1: ValueError: nothing to add to"):
        poll(session)
