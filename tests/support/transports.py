# SPDX-License-Identifier: Apache-2.0
"""The transports that the contract suite holds to `nearkv_driver.transport`. A new one is one line here.

With NEARKV_CONTRACT_URL in the environment the suite runs on that card alone: so it is run inside another program.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from nearkv_driver.errors import BufferMisuse
from nearkv_driver.registry import open_transport
from nearkv_driver.regmap import ADDR_CTL, ADDR_CTRL, ADDR_KV, ADDR_OUT, CTRL_CONTINUE, CTRL_DONE, CTRL_IDLE, CTRL_START
from nearkv_driver.transport import Transport
from nearkv_emulation.faults import FaultyTransport

from tests.support import pynq_machines
from tests.support.rtl_tools import needs_verilator, patient
from tests.support.xrt_machines import contract_card

URL = "sw_emu:contract?dram=16M"
RTL = "hw_emu:contract?dram=16M"


@dataclass(frozen=True)
class Candidate:
    """A transport under test; banks of its card hold at least 16 MiB. `marks` skip it where a tool is missing.

    lacks: what it cannot do and refuses instead: "registers" (others than CTRL are not read), "ready" (READY never
    shows), "second start" (none is held back while one runs).
    """

    name: str
    open: Callable[[], Transport]
    lacks: frozenset[str] = frozenset()
    marks: tuple[pytest.MarkDecorator, ...] = ()


RUNS_LACK = frozenset({"registers", "ready", "second start"})
_RTL_MARKS = (needs_verilator, patient)

_ALL = (
    Candidate("sw_emu-hls", lambda: open_transport(f"{URL}&kernel=hls")),
    Candidate("sw_emu-model", lambda: open_transport(f"{URL}&kernel=model")),
    Candidate("sw_emu-two-banks", lambda: open_transport(f"{URL}&kernel=model&banks=2")),
    Candidate("sw_emu-bounce", lambda: open_transport(f"{URL}&kernel=model&p2p=bounce")),
    Candidate("hw_emu-ideal", lambda: open_transport(RTL), marks=(needs_verilator, patient)),
    Candidate(
        "hw_emu-ddr4", lambda: open_transport(f"{RTL}&memory=ddr4-2400&banks=2"), marks=(needs_verilator, patient)
    ),
    Candidate("xrt-pyxrt-2.13-bounce", lambda: contract_card("2.13", "&p2p=bounce"), RUNS_LACK),
    Candidate("xrt-pyxrt-2.25", lambda: contract_card("2.25"), RUNS_LACK),
    Candidate("pynq", pynq_machines.contract_card),
    Candidate("no-fault", lambda: FaultyTransport(open_transport(f"{URL}&kernel=model"))),
)


def _candidates() -> tuple[Candidate, ...]:
    url = os.environ.get("NEARKV_CONTRACT_URL", "")
    if not url:
        return _ALL
    return (Candidate(url, lambda: open_transport(url), RUNS_LACK if "control=runs" in url else frozenset()),)


CANDIDATES = _candidates()


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


def refuse_stray_pointers(card: Transport) -> None:
    """Of a card with two banks, its kernel linked to the first: START takes live buffers of that bank only."""
    here, there, freed = card.alloc(4096, 0), card.alloc(4096, 1), card.alloc(4096, 0)
    gone = freed.address
    freed.free()
    for ctl, out, text in (
        (there.address, here.address, "CTL"),
        (here.address, there.address, "OUT"),
        (gone, here.address, "CTL"),
        (0, here.address, "CTL"),
    ):
        set_arguments(card, 0, ctl, out)
        with pytest.raises(BufferMisuse, match=rf"START with {text} = .* DDR\[0\]"):
            start(card)
        assert card.read32(ADDR_CTRL) == CTRL_IDLE
    card.close()
