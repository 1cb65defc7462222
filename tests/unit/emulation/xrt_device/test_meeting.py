# SPDX-License-Identifier: Apache-2.0
"""How device and host meet at a path that the host's library removes and takes as it likes."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from nearkv_emulation.xrt_device.meeting import AttachPoint, Lifeline, Orphaned, launched, peer


@pytest.fixture
def line() -> Iterator[tuple[Lifeline, int]]:
    """A lifeline and the descriptor that ends it."""
    read, write = os.pipe()
    yield Lifeline(read), write
    os.close(read)


def dial(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(str(path))
    return sock


def talk(one: socket.socket, other: socket.socket) -> bool:
    """Whether the two are ends of one connection."""
    one.sendall(b"?")
    other.settimeout(10)
    return other.recv(1) == b"?"


def test_hosts_come_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with AttachPoint(path, Lifeline()) as point:
        for _ in range(2):
            with dial(path) as host, point.meet() as device:
                assert talk(host, device)
                assert peer(device) == os.getpid()
    assert not path.exists()


def test_the_path_comes_back_after_a_host_removed_it(tmp_path: Path) -> None:
    """As the library does when it closes a device; the next one connects again."""
    path = tmp_path / "socket"
    with AttachPoint(path, Lifeline()) as point:
        path.unlink()
        met: list[socket.socket] = []
        waiting = threading.Thread(target=lambda: met.append(point.meet()))
        waiting.start()
        host = None
        while host is None:
            try:
                host = dial(path)
            except FileNotFoundError:
                continue
        waiting.join(10)
        with host, met[0]:
            assert talk(host, met[0])


def test_a_host_that_took_the_path_is_called(tmp_path: Path) -> None:
    """As the library does when nobody listens at that moment: it removes the path, listens and waits."""
    path = tmp_path / "socket"
    with AttachPoint(path, Lifeline()) as point:
        path.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            listener.listen()
            device = point.meet()
            host, _ = listener.accept()
        with host, device:
            assert talk(host, device)


def test_a_host_that_was_there_first_is_called(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        with AttachPoint(path, Lifeline()) as point, point.meet() as device:
            host, _ = listener.accept()
            with host:
                assert talk(host, device)


def test_a_path_that_a_dead_process_left_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    dead.bind(str(path))
    dead.close()
    with AttachPoint(path, Lifeline()) as point, dial(path) as host, point.meet() as device:
        assert talk(host, device)
    assert list(tmp_path.iterdir()) == []


def test_a_launched_device_waits_for_its_host(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    met: list[socket.socket] = []
    waiting = threading.Thread(target=lambda: met.append(launched(path, Lifeline())))
    waiting.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        host, _ = listener.accept()
    waiting.join(10)
    with host, met[0]:
        assert talk(host, met[0])


def test_the_end_of_the_lifeline_ends_waiting(tmp_path: Path, line: tuple[Lifeline, int]) -> None:
    lifeline, end = line
    with AttachPoint(tmp_path / "socket", lifeline) as point:
        os.close(end)
        with pytest.raises(Orphaned):
            point.meet()
    with pytest.raises(Orphaned):
        launched(tmp_path / "nobody", lifeline)


def test_what_a_host_said_goes_before_the_end_of_the_lifeline(line: tuple[Lifeline, int]) -> None:
    lifeline, end = line
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"!")
        os.close(end)
        assert lifeline.wait([other]) == [other]
        other.recv(1)
        with pytest.raises(Orphaned):
            lifeline.wait([other])
