# SPDX-License-Identifier: Apache-2.0
"""How messages follow one another on the two sockets: a header with the size and a number of the call. No meaning.

Requests have 14 bytes of header on both sockets. Replies have 9 on the first, where the shim reads exactly so many, and
14 on the second.
"""

from __future__ import annotations

import socket
import struct

from nearkv_emulation.xrt_device.wire import ProtocolError

# Field 1 (size) as fixed64, then field 2 (call) as fixed32: the numbers 0x09 and 0x15 are those of the encoding.
_REQUEST = struct.Struct("<BQBI")
_REPLY = struct.Struct("<BQ")
_SIZE_KEY, _CALL_KEY = 0x09, 0x15
# The shim cuts transfers into packets of 8 MiB unless told otherwise; a size far beyond that is damage.
MESSAGE_NBYTES_MAX = 1 << 30


class Closed(Exception):
    """The other side closed the socket; the text says how far into a message, and is empty between two."""


def receive(sock: socket.socket) -> tuple[int, bytearray]:
    """Call number and message. Raises Closed, ProtocolError."""
    head = _exactly(sock, _REQUEST.size)
    size_key, size, call_key, call = _REQUEST.unpack(head)
    if size_key != _SIZE_KEY or call_key != _CALL_KEY:
        raise ProtocolError(f"a header begins with {bytes(head).hex()}; 09 SIZE*8 15 CALL*4 is expected")
    if size > MESSAGE_NBYTES_MAX:
        raise ProtocolError(f"call {call} announces {size} bytes; at most {MESSAGE_NBYTES_MAX} are taken")
    return call, _exactly(sock, size)


def reply(sock: socket.socket, message: bytes) -> None:
    """Sends an answer. OSError where the other side is gone."""
    sock.sendall(_REPLY.pack(_SIZE_KEY, len(message)) + message)


def request(sock: socket.socket, call: int, message: bytes) -> None:
    """Sends a call. OSError where the other side is gone."""
    sock.sendall(_REQUEST.pack(_SIZE_KEY, len(message), _CALL_KEY, call) + message)


def _exactly(sock: socket.socket, nbytes: int) -> bytearray:
    data = bytearray(nbytes)
    view, done = memoryview(data), 0
    while done < nbytes:
        got = sock.recv_into(view[done:])
        if not got:
            raise Closed(f"after {done} of {nbytes} bytes" if done or nbytes != _REQUEST.size else "")
        done += got
    return data
