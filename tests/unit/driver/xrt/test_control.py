# SPDX-License-Identifier: Apache-2.0
"""Registers and runs as the driver meets them: wide addresses, a card that leaves the bus, a list that never ends."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import DeviceGone, DeviceTimeout, DriverError, TransportUnavailable
from nearkv_driver.regmap import (
    ADDR_CTL,
    ADDR_CTRL,
    ADDR_KV,
    ADDR_OUT,
    CTRL_CONTINUE,
    CTRL_DONE,
    CTRL_IDLE,
    CTRL_READY,
    CTRL_START,
    REGISTER_GONE,
)
from nearkv_driver.xrt.api import XrtError
from nearkv_driver.xrt.card import XrtCard
from nearkv_driver.xrt.control import RegisterControl
from nearkv_emulation.control import ControlRegisters

from tests.support.cards import job_over
from tests.support.fake_pyxrt import Script, write_binary
from tests.support.xrt_machines import rig


class Registers:
    """A unit's own registers; `reads` says how many reads pass before a list ends, `gone` that the card has left."""

    def __init__(self, reads: int = 3) -> None:
        self.file = ControlRegisters()
        self.reads, self.left = reads, 0
        self.gone = self.broken = self.freed = False

    def read(self, offset: int) -> int:
        if self.broken:
            raise XrtError("Operation not permitted", errno=1)
        if self.gone:
            return REGISTER_GONE
        value = self.file.read(offset)
        if offset == ADDR_CTRL and self.left:
            self.file.accepted()
            self.left -= 1
            if not self.left:
                self.file.ended()
        return value

    def write(self, offset: int, value: int) -> None:
        if self.broken:
            raise XrtError("Operation not permitted", errno=1)
        self.file.write(offset, value)
        if offset == ADDR_CTRL and self.file.begin():
            self.left = self.reads

    def free(self) -> None:
        self.freed = True


@pytest.fixture
def registers() -> Registers:
    return Registers()


@pytest.fixture
def control(registers: Registers) -> RegisterControl:
    return RegisterControl(registers, "xrt:0", sleep=lambda seconds: None)


@pytest.mark.parametrize("address", [0x1000, 0xFFFFF000, 0x100000000, 0x4000001000])
def test_addresses_of_64_bits_reach_the_registers(control: RegisterControl, address: int) -> None:
    for register in (ADDR_KV, ADDR_CTL, ADDR_OUT):
        control.write(register, address & 0xFFFFFFFF)
        control.write(register + 4, address >> 32)
    for register in (ADDR_KV, ADDR_CTL, ADDR_OUT):
        assert control.read(register) | control.read(register + 4) << 32 == address


@pytest.mark.parametrize("address", [0x1000, 0xFFFFF000, 0x100000000, 0x4000001000])
def test_addresses_of_64_bits_reach_a_run(address: int, tmp_path: Path) -> None:
    """The second page of a bank is the first buffer: the first page is another program's."""
    write_binary(tmp_path / "kernel.xclbin", base=address - 4096, nbytes=4 << 20)
    machine = rig(tmp_path)
    with NearDevice.open(machine.open("&p2p=bounce")) as device:
        device.attend([job_over(None, limits=((0, 0),))])
    assert {arguments[:2] for arguments in machine.script.arguments} == {(address, address)}


def test_the_handshake_between_pauses(control: RegisterControl) -> None:
    assert control.read(ADDR_CTRL) == CTRL_IDLE
    control.write(ADDR_CTRL, CTRL_START)
    assert [control.read(ADDR_CTRL) for _ in range(5)] == [CTRL_START] * 5
    assert control.busy
    control.pause(1.0)
    assert not control.busy
    assert control.read(ADDR_CTRL) == CTRL_DONE | CTRL_IDLE | CTRL_READY  # kept from an earlier read of the card
    assert control.read(ADDR_CTRL) == CTRL_DONE | CTRL_IDLE
    control.write(ADDR_CTRL, CTRL_CONTINUE)
    assert control.read(ADDR_CTRL) == CTRL_IDLE


def test_a_held_start_begins_with_continue(control: RegisterControl, registers: Registers) -> None:
    control.write(ADDR_CTRL, CTRL_START)
    control.pause(1.0)
    control.write(ADDR_CTRL, CTRL_START)
    control.pause(0.0)
    assert control.read(ADDR_CTRL) & (CTRL_DONE | CTRL_START | CTRL_IDLE) == CTRL_DONE | CTRL_START
    control.write(ADDR_CTRL, CTRL_CONTINUE)
    assert control.read(ADDR_CTRL) & (CTRL_DONE | CTRL_START | CTRL_IDLE) == CTRL_START
    control.pause(1.0)
    assert control.read(ADDR_CTRL) & CTRL_DONE
    assert not registers.freed


def test_what_a_dead_program_left_is_let_end(registers: Registers) -> None:
    registers.write(ADDR_CTRL, CTRL_START)
    control = RegisterControl(registers, "xrt:0", sleep=lambda seconds: None)
    control.settle()
    assert control.read(ADDR_CTRL) == CTRL_IDLE
    control.write(ADDR_CTRL, CTRL_START)
    control.pause(1.0)
    assert control.read(ADDR_CTRL) & CTRL_DONE

    endless = Registers(reads=1 << 30)
    endless.write(ADDR_CTRL, CTRL_START)
    with pytest.raises(TransportUnavailable, match="still runs a list that another program has left"):
        RegisterControl(endless, "xrt:0").settle(0.01)


def test_a_pause_keeps_its_time() -> None:
    control = RegisterControl(Registers(reads=1 << 30), "xrt:0")
    control.write(ADDR_CTRL, CTRL_START)
    began = time.monotonic()
    control.pause(0.05)
    assert 0.05 <= time.monotonic() - began < 1.0
    assert control.busy


def test_a_card_that_has_left_the_bus(control: RegisterControl, registers: Registers) -> None:
    control.write(ADDR_CTRL, CTRL_START)
    registers.gone = True
    control.pause(10.0)  # returns at once
    assert control.read(ADDR_CTRL) == control.read(ADDR_CTRL) == REGISTER_GONE
    assert not control.busy
    control.write(ADDR_CTRL, CTRL_CONTINUE)
    assert control.read(ADDR_CTRL) == REGISTER_GONE


def test_xrts_refusals_are_the_drivers_errors(control: RegisterControl, registers: Registers) -> None:
    registers.broken = True
    for call in (lambda: control.read(ADDR_KV), lambda: control.write(ADDR_KV, 0), lambda: control.pause(0)):
        with pytest.raises(DriverError, match="xrt:0: XRT cannot"):
            call()


def test_the_driver_calls_a_gone_card_gone(tmp_path: Path) -> None:
    machine = rig(tmp_path)
    card = machine.open("&p2p=bounce")
    assert isinstance(card, XrtCard)
    with NearDevice.open(card) as device:
        registers = Registers()
        registers.gone = True
        card._control = RegisterControl(registers, "xrt:0")
        with pytest.raises(DeviceGone):
            device.attend([job_over(None, limits=((0, 0),))])


def test_a_run_that_never_ends(tmp_path: Path) -> None:
    """C31: in time, with what is known; the output is not returned; a new open works."""
    script = Script()
    machine = rig(tmp_path, script)
    with NearDevice.open(machine.open("&p2p=bounce"), timeout_s=0.3) as device:
        script.hold = threading.Event()
        began = time.monotonic()
        with pytest.raises(DeviceTimeout, match=r"no end after \d\.\d s: CTRL = 0x0, 1 of 1 jobs ended") as caught:
            device.attend([job_over(None, limits=((0, 0),))])
        assert time.monotonic() - began < 9  # a busy machine pauses longer than it is asked to
        assert caught.value.progress
        with pytest.raises(DriverError, match="open it again"):
            device.attend([job_over(None, limits=((0, 0),))])
    script.hold.set()
    script.hold = None
    with NearDevice.open(machine.open("&p2p=bounce")) as device:
        device.attend([job_over(None, limits=((0, 0),))])
