# SPDX-License-Identifier: Apache-2.0
"""Loading a binary has a time limit, and whoever works on a device last closes it, once."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nearkv_driver.errors import LoadTimeout
from nearkv_driver.xrt.api import XrtError
from nearkv_driver.xrt.loading import load_within

from tests.support.fake_pyxrt import Script
from tests.support.xrt_machines import rig

FILE = Path("/files/kernel.xclbin")
CARD = "xrt:0"
_END_S = 60.0


class SlowDevice:
    """Its load lasts until `go` is set. `closed` counts; closing while the load runs is what no XRT survives."""

    def __init__(self, act: Callable[[], None] = lambda: None) -> None:
        self.go, self.gone = threading.Event(), threading.Event()
        self.loaded: list[Path] = []
        self.closed = 0
        self._act, self._loading = act, False

    def load(self, xclbin: Path) -> None:
        self._loading = True
        self._act()
        assert self.go.wait(_END_S)
        self.loaded.append(xclbin)
        self._loading = False

    def close(self) -> None:
        assert not self._loading
        self.closed += 1
        self.gone.set()


def load(device: Any, limit_s: float = _END_S) -> None:
    """As a card is opened: the stack closes the device when something fails, else keeps it."""
    with ExitStack() as stack:
        stack.callback(device.close)
        load_within(limit_s, device, FILE, CARD, stack)
        stack.pop_all()


def test_a_load_in_time_leaves_the_device_open() -> None:
    device = SlowDevice()
    device.go.set()
    load(device)
    assert (device.loaded, device.closed) == ([FILE], 0)


def test_a_load_that_does_not_end_is_an_error_and_its_device_is_closed_later() -> None:
    device = SlowDevice()
    with pytest.raises(LoadTimeout, match=f"{CARD}: {FILE} is not on the card after 0.01 s") as caught:
        load(device, 0.01)
    assert (caught.value.card, caught.value.path, caught.value.elapsed_s) == (CARD, str(FILE), 0.01)
    assert (device.loaded, device.closed) == ([], 0)
    device.go.set()
    assert device.gone.wait(_END_S)
    assert (device.loaded, device.closed) == ([FILE], 1)


def test_ctrl_c_ends_the_wait_and_not_the_load() -> None:
    device = SlowDevice(act=lambda: os.kill(os.getpid(), signal.SIGINT))
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            load(device)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert device.closed == 0
    device.go.set()
    assert device.gone.wait(_END_S)
    assert device.closed == 1


def test_what_xrt_says_comes_through() -> None:
    def fail() -> None:
        raise XrtError("no such file", errno=2)

    device = SlowDevice(act=fail)
    device.close = lambda: None  # type: ignore[method-assign]
    with pytest.raises(XrtError, match="no such file") as caught:
        load(device)
    assert caught.value.errno == 2


def test_a_load_that_ends_as_the_time_does_counts() -> None:
    """The limit is over before the thread has begun: nothing was left behind, so nothing is lost."""
    for _ in range(50):
        device = SlowDevice()
        device.go.set()
        try:
            load(device, 0.0)
        except LoadTimeout:
            assert device.gone.wait(_END_S)
        assert device.loaded == [FILE] or device.gone.is_set()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Script]:
    script = Script(hold_load=threading.Event())
    yield script
    assert script.hold_load is not None
    script.hold_load.set()


def test_a_card_whose_binary_does_not_load(held: Script, tmp_path: Path) -> None:
    """Nothing of it is left when XRT has returned after all."""
    machine = rig(tmp_path, held)
    slow = replace(machine, machine=replace(machine.machine, load_s=0.01))
    with pytest.raises(LoadTimeout) as caught:
        slow.open()
    assert caught.value.card == machine.url()
    assert caught.value.path == str(machine.binary)
    (thread,) = [thread for thread in threading.enumerate() if thread.name == f"load {machine.binary}"]
    assert held.hold_load is not None
    held.hold_load.set()
    thread.join(_END_S)
    del caught
    gc.collect()
    assert not any(held.objects.values())
