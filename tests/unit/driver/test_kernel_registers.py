# SPDX-License-Identifier: Apache-2.0
"""The register sequence: what is written in which order, and what CTRL says of a start that was interrupted."""

from __future__ import annotations

import pytest
from nearkv_driver.errors import DeviceGone, DriverError
from nearkv_driver.kernel_registers import KernelRegisters
from nearkv_driver.regmap import (
    ADDR_CTL,
    ADDR_CTRL,
    ADDR_KV,
    ADDR_OUT,
    CTRL_CONTINUE,
    CTRL_DONE,
    CTRL_IDLE,
    CTRL_START,
    REGISTER_GONE,
)


class Port:
    """A register file without a kernel; `ctrl` is what CTRL reads, None where reading fails."""

    def __init__(self, ctrl: int | None = 0) -> None:
        self.ctrl = ctrl
        self.written: list[tuple[int, int]] = []

    def read32(self, offset: int) -> int:
        assert offset == ADDR_CTRL
        if self.ctrl is None:
            raise DriverError("no answer")
        return self.ctrl

    def write32(self, offset: int, value: int) -> None:
        self.written.append((offset, value))


def of(port: Port) -> KernelRegisters:
    return KernelRegisters(port, "card:0")  # type: ignore[arg-type]


def test_pointers_come_before_start() -> None:
    port = Port()
    of(port).start(0x1_2345_6780, 0x40, (1 << 64) - 64)
    assert port.written[-1] == (ADDR_CTRL, CTRL_START)
    assert dict(port.written[:-1]) == {
        ADDR_KV: 0x2345_6780,
        ADDR_KV + 4: 1,
        ADDR_CTL: 0x40,
        ADDR_CTL + 4: 0,
        ADDR_OUT: 0xFFFF_FFC0,
        ADDR_OUT + 4: 0xFFFF_FFFF,
    }
    of(port).go_on()
    assert port.written[-1] == (ADDR_CTRL, CTRL_CONTINUE)


@pytest.mark.parametrize(
    ("ctrl", "started"),
    [(CTRL_IDLE, False), (0, True), (CTRL_START, True), (CTRL_DONE | CTRL_IDLE, True), (None, False)],
)
def test_whether_a_list_was_started(ctrl: int | None, started: bool) -> None:
    assert of(Port(ctrl)).started() is started


def test_a_card_that_has_left_the_bus() -> None:
    registers = of(Port(REGISTER_GONE))
    assert not registers.gone
    with pytest.raises(DeviceGone, match=r"card:0: CTRL reads 0xffffffff"):
        registers.control()
    assert registers.gone
    assert not registers.started()
