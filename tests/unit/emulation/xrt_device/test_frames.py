# SPDX-License-Identifier: Apache-2.0
"""Frames on a socket: whole ones come through, damaged and cut ones are told apart."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from nearkv_emulation.xrt_device.frames import MESSAGE_NBYTES_MAX, Closed, receive, reply, request
from nearkv_emulation.xrt_device.wire import ProtocolError

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    host, device = socket.socketpair()
    with host, device:
        yield host, device


def header(size: int, call: int) -> bytes:
    return b"\x09" + size.to_bytes(8, "little") + b"\x15" + call.to_bytes(4, "little")


def test_the_bytes_are_those_of_the_shim(pair: Pair) -> None:
    host, device = pair
    host.sendall(header(3, 9) + b"abc")
    assert receive(device) == (9, bytearray(b"abc"))
    reply(device, b"\x08\x01")
    assert host.recv(100) == b"\x09" + (2).to_bytes(8, "little") + b"\x08\x01"
    request(device, 34, b"xy")
    assert host.recv(100) == header(2, 34) + b"xy"


def test_a_message_may_come_in_pieces(pair: Pair) -> None:
    host, device = pair
    message = bytes(range(256)) * 4096

    def send() -> None:
        host.sendall(header(len(message), 6)[:5])
        host.sendall(header(len(message), 6)[5:] + message[:1000])
        host.sendall(message[1000:])

    sender = threading.Thread(target=send)
    sender.start()
    assert receive(device) == (6, bytearray(message))
    sender.join()


def test_the_end_between_two_messages_is_no_cut(pair: Pair) -> None:
    host, device = pair
    host.close()
    with pytest.raises(Closed) as caught:
        receive(device)
    assert str(caught.value) == ""


@pytest.mark.parametrize(
    ("sent", "where"), [(header(3, 9)[:5], "after 5 of 14"), (header(3, 9) + b"a", "after 1 of 3")]
)
def test_the_end_inside_a_message_says_how_far(pair: Pair, sent: bytes, where: str) -> None:
    host, device = pair
    host.sendall(sent)
    host.close()
    with pytest.raises(Closed, match=where):
        receive(device)


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        (b"\x0a" + bytes(13), "a header begins with 0a00000000000000000000000000"),
        (b"\x09" + bytes(8) + b"\x0d" + bytes(4), "15 CALL"),
        (header(MESSAGE_NBYTES_MAX + 1, 6), f"call 6 announces {MESSAGE_NBYTES_MAX + 1} bytes"),
    ],
)
def test_damage_is_refused(pair: Pair, head: bytes, sentence: str) -> None:
    host, device = pair
    host.sendall(head)
    with pytest.raises(ProtocolError, match=sentence):
        receive(device)
