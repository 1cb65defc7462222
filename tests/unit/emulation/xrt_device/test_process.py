# SPDX-License-Identifier: Apache-2.0
"""The device process as a whole, against a host that is a socket of the test: what it says when it ends, and what is
left. The real library is met in tests/xrt."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nearkv_emulation.xrt_device.messages import Call
from nearkv_emulation.xrt_device.report import Report, State, read_report
from nearkv_emulation.xrt_device.wire import Fields, pack

from tests.support import xrt_toy
from tests.support.cli import ROOT

_WAIT_S = 60.0
HEADER = b"\x09%b\x15%b"


class Device:
    """A device process in attach mode and what it leaves."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.socket = folder, folder / "socket"
        self.p2p = folder / "p2p"
        self.p2p.mkdir()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.socket))
        self._listener.listen()
        line = [sys.executable, "-m", "nearkv_emulation.xrt_device", "--listen", str(self.socket)]
        line += ["--listen-fd", str(self._listener.fileno()), "--report", str(folder / "report.json")]
        line += ["--p2p-folder", str(self.p2p), *options]
        paths = os.pathsep.join(str(ROOT / part) for part in ("host", "driver", "emulation", "."))
        self.process = subprocess.Popen(
            line,
            env={**os.environ, "PYTHONPATH": paths},
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[self._listener.fileno()],
        )
        self._listener.close()

    def host(self) -> socket.socket:
        host = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        host.settimeout(_WAIT_S)
        host.connect(str(self.socket))
        return host

    def end(self) -> tuple[int, str, Report]:
        """Its exit code, what it said, its report."""
        _, said = self.process.communicate(timeout=_WAIT_S)
        return self.process.returncode, said, read_report(self.folder / "report.json")


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    models = [part for model in xrt_toy.MODELS for part in ("--model", model)]
    device = Device(tmp_path, "--xclbin", str(xrt_toy.write_xclbin(tmp_path)), *models)
    yield device
    if device.process.poll() is None:
        device.process.kill()
        device.process.communicate()


def ask(host: socket.socket, call: int, *fields: tuple[int, int | bytes]) -> Fields:
    message = pack(fields)
    host.sendall(HEADER % (len(message).to_bytes(8, "little"), call.to_bytes(4, "little")) + message)
    head = host.recv(9, socket.MSG_WAITALL)
    return Fields.parse(host.recv(int.from_bytes(head[1:], "little"), socket.MSG_WAITALL))


def test_two_hosts_one_after_the_other_and_a_proper_end(device: Device) -> None:
    for number in range(2):
        with device.host() as host:
            data = ask(host, Call.FROM_DEVICE, (4, xrt_toy.BASE), (5, 4), (6, 0)).data(2)
            assert bytes(data) == bytes(4)  # a card of its own each time
            ask(host, Call.TO_DEVICE, (3, xrt_toy.BASE), (4, bytes([number + 1] * 4)), (5, 4), (6, 0))
            assert ask(host, Call.CLOSE, (3, 0)).number(1) == 1
            assert host.recv(1) == b""  # the device leaves first
    device.process.send_signal(signal.SIGTERM)
    code, said, report = device.end()
    assert (code, report.state, report.alive) == (0, State.CLOSED, False)
    assert [session["calls"] for session in report.details["sessions"]] == [3, 3]
    assert said.count("closed properly") == 2
    assert not device.socket.exists()


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (b"\xff" * 14, "a header begins with ffff"),
        (HEADER % ((1 << 40).to_bytes(8, "little"), (6).to_bytes(4, "little")), "call 6 announces 1099511627776 bytes"),
        (
            HEADER % ((2).to_bytes(8, "little"), (4).to_bytes(4, "little")) + b"\x08\x80",
            "call ALLOC of 2 bytes: the me",
        ),
    ],
)
def test_a_damaged_message_ends_the_process_with_a_sentence(device: Device, sent: bytes, sentence: str) -> None:
    with device.host() as host:
        host.sendall(sent)
        assert host.recv(1) == b""
    code, said, report = device.end()
    assert (code, report.state) == (3, State.FAILED)
    assert sentence in report.message
    assert report.message in said
    assert "Traceback" not in said


@pytest.mark.parametrize("cut", [0, 5, 20])
def test_a_host_that_goes_takes_the_files_of_its_buffers_along(device: Device, cut: int) -> None:
    with device.host() as host:
        path = Path(bytes(ask(host, Call.ALLOC, (1, xrt_toy.BASE), (2, 4096), (3, 1)).data(2)).decode())
        assert path.is_file()
        host.sendall((HEADER % ((100).to_bytes(8, "little"), (6).to_bytes(4, "little")) + b"\x08" * 50)[:cut])
    with device.host() as host:  # the next host is served, and does not make up for the first
        ask(host, Call.CLOSE, (3, 0))
        assert host.recv(1) == b""
    device.process.send_signal(signal.SIGTERM)
    code, _, report = device.end()
    assert (code, report.state) == (3, State.LOST)
    assert report.message.startswith("the host ended without closing the device")
    assert len(report.details["sessions"]) == 1
    assert not device.socket.exists()
    assert list(device.p2p.iterdir()) == []


def test_a_second_host_is_turned_away_with_the_reason(device: Device) -> None:
    with device.host() as host:
        ask(host, Call.TIMESTAMP, (1, 1))
        with device.host():
            code, _, report = device.end()
    assert (code, report.state) == (3, State.FAILED)
    assert report.message == "a second device was opened, and in attach mode there is one; give --devices 2"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--xclbin", "missing.xclbin"], "missing.xclbin: cannot be read: No such file"),
        (["--model", "add_hs=tests.support.xrt_toy:nothing"], "model 'add_hs=tests.support.xrt_toy:nothing'"),
        (["--model", "add_hs"], "model 'add_hs'; NAME=MODULE:FUNCTION is expected"),
    ],
)
def test_bad_options_end_it_before_it_meets_anybody(tmp_path: Path, options: list[str], sentence: str) -> None:
    xclbin = xrt_toy.write_xclbin(tmp_path)
    code, said, report = Device(tmp_path, "--xclbin", str(xclbin), *options).end()
    assert (code, report.state) == (2, State.FAILED)
    assert sentence in said


def test_a_kernel_without_a_model_is_named(tmp_path: Path) -> None:
    device = Device(tmp_path, "--xclbin", str(xrt_toy.write_xclbin(tmp_path)), "--model", xrt_toy.MODELS[0])
    code, said, _ = device.end()
    assert code == 2
    assert "has kernel 'add_chain', for which there is no model; give --model add_chain=MODULE:FUNCTION" in said


def test_the_second_socket_is_joined_and_taken_leave_of(device: Device) -> None:
    """Without the farewell the host's library takes seconds to close the device."""
    path = device.socket.with_name(f"D2X_unix_sock_{device.socket.name}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, device.host() as host:
        ask(host, Call.TIMESTAMP, (1, 1))  # before the host listens: the device must not give up
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(_WAIT_S)
        ask(host, Call.TIMESTAMP, (1, 1))
        with listener.accept()[0] as second:
            second.settimeout(_WAIT_S)
            ask(host, Call.CLOSE, (3, 0))
            assert second.recv(14, socket.MSG_WAITALL) == HEADER % (bytes(8), (1).to_bytes(4, "little"))
            assert second.recv(1) == b""
    device.process.send_signal(signal.SIGTERM)
    device.end()
    assert not path.exists()
