# SPDX-License-Identifier: Apache-2.0
"""The transports that the contract suite holds to `nearkv_driver.transport`. A new one is one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from nearkv_driver.registry import open_transport
from nearkv_driver.regmap import ADDR_CTL, ADDR_CTRL, ADDR_KV, ADDR_OUT, CTRL_CONTINUE, CTRL_DONE, CTRL_START
from nearkv_driver.transport import Transport
from nearkv_emulation.faults import FaultyTransport

from tests.support.rtl_tools import needs_verilator, patient

URL = "sw_emu:contract?dram=16M"
RTL = "hw_emu:contract?dram=16M"


@dataclass(frozen=True)
class Candidate:
    """A transport under test; banks of its card hold at least 16 MiB. `marks` skip it where a tool is missing."""

    name: str
    open: Callable[[], Transport]
    marks: tuple[pytest.MarkDecorator, ...] = ()


CANDIDATES = (
    Candidate("sw_emu-hls", lambda: open_transport(f"{URL}&kernel=hls")),
    Candidate("sw_emu-model", lambda: open_transport(f"{URL}&kernel=model")),
    Candidate("sw_emu-two-banks", lambda: open_transport(f"{URL}&kernel=model&banks=2")),
    Candidate("sw_emu-bounce", lambda: open_transport(f"{URL}&kernel=model&p2p=bounce")),
    Candidate("hw_emu-ideal", lambda: open_transport(RTL), (needs_verilator, patient)),
    Candidate("hw_emu-ddr4", lambda: open_transport(f"{RTL}&memory=ddr4-2400&banks=2"), (needs_verilator, patient)),
    Candidate("no-fault", lambda: FaultyTransport(open_transport(f"{URL}&kernel=model"))),
)


def set_arguments(card: Transport, kv: int, ctl: int, out: int) -> None:
    for register, value in ((ADDR_KV, kv), (ADDR_CTL, ctl), (ADDR_OUT, out)):
        card.write32(register, value & 0xFFFFFFFF)
        card.write32(register + 4, value >> 32)


def start(card: Transport) -> None:
    card.write32(ADDR_CTRL, CTRL_START)


def go_on(card: Transport) -> None:
    card.write32(ADDR_CTRL, CTRL_CONTINUE)


def until_done(card: Transport, pauses: int = 1000) -> int:
    """Pauses until DONE shows; the last value of CTRL."""
    for _ in range(pauses):
        card.pause(0.1)
        register = card.read32(ADDR_CTRL)
        if register & CTRL_DONE:
            return register
    raise AssertionError(f"no DONE after {pauses} pauses")
