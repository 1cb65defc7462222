# SPDX-License-Identifier: Apache-2.0
"""What the emulated card adds to the transport contract: its URL, its strictness, its thread."""

from __future__ import annotations

import threading

import pytest
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import DriverError, JobError, TransportUnavailable
from nearkv_driver.registry import open_transport, parse_url
from nearkv_driver.regmap import ADDR_CTRL, CTRL_DONE, CTRL_IDLE, CTRL_READY, CTRL_START, Implementation
from nearkv_emulation.card import EmulatedCard, card_info
from nearkv_emulation.faults import HoleInMemory
from nearkv_emulation.kernel import Masters
from nearkv_emulation.model import ModelKernel

from tests.support.cards import SMALL, card_with, job_over
from tests.support.transports import go_on, refuse_stray_pointers, set_arguments, start, until_done


def test_defaults_of_the_url() -> None:
    info = card_info(parse_url("sw_emu:0"))
    (bank,) = info.banks
    assert (bank.tag, bank.base, bank.nbytes) == ("DDR[0]", 0x4000000000, 4 << 30)
    assert (info.p2p, info.p2p_reason, info.simulated, info.kind) == (True, "", True, "sw_emu")


def test_a_second_bank_exists_but_no_master_is_linked_to_it() -> None:
    info = card_info(parse_url("sw_emu:0?banks=2&dram=1M&base=0x1000"))
    assert [b.tag for b in info.banks] == ["DDR[0]", "DDR[1]"]
    assert info.banks[1].base > info.banks[0].base + info.banks[0].nbytes
    assert set(info.masters.values()) == {0}


def test_bounce_means_no_p2p_and_says_why() -> None:
    card = open_transport(f"{SMALL}&p2p=bounce")
    assert (card.info().p2p, card.info().p2p_reason) == (False, "the card URL says p2p=bounce")
    with pytest.raises(TransportUnavailable, match="p2p=bounce"):
        card.alloc(4096, 0, p2p=True)
    card.close()


def test_the_kernel_is_the_one_that_the_url_names() -> None:
    with NearDevice.open(SMALL) as device:
        assert device.identity.implementation == Implementation.MODEL


def test_start_needs_live_buffers_in_the_bank_of_the_master() -> None:
    refuse_stray_pointers(card_with(ModelKernel(), f"{SMALL}&banks=2"))


class Gate:
    """A kernel that ends when it is told to."""

    def __init__(self) -> None:
        self.began, self.may_end, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.runs = 0

    def run(self, masters: Masters, kv: int, ctl: int, out: int) -> None:
        self.runs += 1
        self.began.set()
        assert self.may_end.wait(60)
        masters.out[0].memory[:1] = 1
        self.ended.set()


def gated() -> tuple[EmulatedCard, Gate]:
    gate = Gate()
    card = card_with(gate)
    buffer = card.alloc(4096, 0)
    set_arguments(card, buffer.address, buffer.address, buffer.address)
    start(card)
    assert gate.began.wait(60)
    return card, gate


def test_a_running_list_is_busy_and_accepted() -> None:
    card, gate = gated()
    assert card.read32(ADDR_CTRL) == CTRL_START
    card.pause(0)
    assert card.read32(ADDR_CTRL) == CTRL_READY
    card.pause(0)
    assert card.read32(ADDR_CTRL) == 0
    gate.may_end.set()
    assert until_done(card) == CTRL_DONE | CTRL_IDLE
    card.close()


def test_an_ended_list_shows_only_after_a_pause() -> None:
    card, gate = gated()
    gate.may_end.set()
    assert gate.ended.wait(60)
    assert {card.read32(ADDR_CTRL) for _ in range(100)} == {CTRL_START}
    assert until_done(card) & CTRL_DONE
    card.close()


def test_a_start_while_busy_is_held_once() -> None:
    card, gate = gated()
    card.pause(0)
    start(card)
    start(card)
    assert card.read32(ADDR_CTRL) & CTRL_START
    gate.may_end.set()
    until_done(card)
    assert gate.runs == 1
    go_on(card)
    until_done(card)
    go_on(card)
    card.pause(0)
    assert (gate.runs, card.read32(ADDR_CTRL)) == (2, CTRL_IDLE)
    card.close()


def test_closing_while_a_list_runs_leaves_it_its_memory() -> None:
    card, gate = gated()
    card.close()
    gate.may_end.set()
    assert gate.ended.wait(60)


def test_what_the_kernel_raises_comes_out_of_pause() -> None:
    class Broken:
        def run(self, masters: Masters, kv: int, ctl: int, out: int) -> None:
            raise RuntimeError("on purpose")

    card = card_with(Broken())
    buffer = card.alloc(4096, 0)
    set_arguments(card, buffer.address, buffer.address, buffer.address)
    start(card)
    with pytest.raises(DriverError, match="the emulated kernel failed: on purpose"):
        card.pause(60)
    card.close()


@pytest.mark.parametrize(("master", "code"), [("kv", "axi_read"), ("ctl", "axi_read")])
def test_memory_that_does_not_answer_is_an_error_status(master: str, code: str) -> None:
    kernel = HoleInMemory(ModelKernel(), master, 0, 0)
    with NearDevice.open(card_with(kernel)) as device:
        buffer = device.alloc(32768)
        job = job_over(buffer)
        state = device.alloc(4096)
        if master == "ctl":
            job = job_over(buffer, state_in=state.address)
        kernel.address = {"kv": buffer.address + 4096, "ctl": state.address}[master]
        kernel.nbytes = 64
        with pytest.raises(JobError, match=rf"{code}: a read on m_axi_{master} at {kernel.address:#x}") as caught:
            device.attend([job])
        assert caught.value.code == code
        kernel.nbytes = 0
        device.attend([job_over(buffer)])


def test_memory_that_takes_no_write_is_an_error_status() -> None:
    kernel = HoleInMemory(ModelKernel(), "out", 0, 0)
    with NearDevice.open(card_with(kernel)) as device:
        tail = device.alloc(8192)
        rows = job_over(None).q[:1].astype("float16")
        job = job_over(None, new_k=rows, new_v=rows, tail_k_addr=tail.address, tail_v_addr=tail.address + 4096)
        kernel.address, kernel.nbytes = tail.address + 4096, 64
        with pytest.raises(JobError, match=f"axi_write: a write on m_axi_out at {kernel.address:#x}"):
            device.attend([job])
        kernel.nbytes = 0
        device.attend([job])


def test_a_hole_is_on_a_master_that_exists() -> None:
    with pytest.raises(ValueError, match="it is kv, ctl or out"):
        HoleInMemory(ModelKernel(), "axi", 0, 64)
