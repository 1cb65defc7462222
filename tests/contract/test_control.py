# SPDX-License-Identifier: Apache-2.0
"""What every transport promises about registers, time and the ap_ctrl_chain handshake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from nearkv_driver.encode import encode_identify
from nearkv_driver.errors import BufferMisuse, DriverError, TransportUnavailable
from nearkv_driver.regmap import (
    ADDR_CTL,
    ADDR_CTRL,
    ADDR_GIER,
    ADDR_IP_IER,
    ADDR_IP_ISR,
    ADDR_KV,
    ADDR_OUT,
    CTRL_AUTO_RESTART,
    CTRL_DONE,
    CTRL_IDLE,
    CTRL_READY,
    CTRL_START,
    IP_IER_DONE,
    IP_IER_READY,
    STATUS,
    Status,
)
from nearkv_driver.transport import Buffer, Transport
from nearkv_driver.windows import Window, Windows

from tests.support.transports import Candidate, go_on, set_arguments, start, until_done

REPLY = 128


@dataclass
class Loaded:
    """A card with an identify list in its memory and its arguments set."""

    card: Transport
    ctl: Buffer
    out: Buffer

    def poison(self) -> None:
        self.out.write(b"\xa5" * REPLY)
        self.out.sync_to_device(REPLY)

    def code(self) -> int:
        """The status code in device memory."""
        self.out.sync_from_device(REPLY)
        return STATUS.unpack(self.out.read(REPLY))["code"]


@pytest.fixture
def loaded(card: Transport) -> Loaded:
    return load(card)


def load(card: Transport) -> Loaded:
    info = card.info()
    ctl, out = (card.alloc(4096, info.masters[m]) for m in ("ctl", "out"))
    ranges = {m: info.banks[info.masters[m]] for m in ("kv", "ctl", "out")}
    windows = Windows(*(Window(m, bank.base, bank.nbytes) for m, bank in ranges.items()))
    kv = ctl.address  # any address of the bank; some transports take addresses of buffers only
    message = encode_identify(kv_base=kv, ctl_address=ctl.address, out_address=out.address, windows=windows)
    ctl.write(bytes(message.data))
    ctl.sync_to_device(message.nbytes)
    set_arguments(card, kv, ctl.address, out.address)
    ready = Loaded(card, ctl, out)
    ready.poison()
    return ready


def test_a_fresh_card_is_idle(card: Transport) -> None:
    assert card.read32(ADDR_CTRL) == CTRL_IDLE
    assert card.read32(ADDR_CTRL) == CTRL_IDLE


def test_a_list_runs_and_shows_its_end(loaded: Loaded) -> None:
    start(loaded.card)
    until_done(loaded.card)
    assert loaded.code() == Status.OK


def test_idle_drops_with_start(loaded: Loaded) -> None:
    start(loaded.card)
    assert not loaded.card.read32(ADDR_CTRL) & CTRL_IDLE


def test_time_passes_only_in_pause(loaded: Loaded) -> None:
    info = loaded.card.info()
    if not info.simulated:
        pytest.skip("a real kernel runs on its own")
    if info.clock_hz:
        pytest.skip("register accesses take cycles of the card's clock, see below")
    start(loaded.card)
    assert {loaded.card.read32(ADDR_CTRL) for _ in range(2000)} == {CTRL_START}


def test_beside_pauses_only_registers_take_cycles(candidate: Candidate) -> None:
    """How many reads a list takes to end is the same each time, whatever the host does with memory in between."""
    reads = []
    for disturbed in (False, True):
        card = candidate.open()
        info = card.info()
        if not (info.simulated and info.clock_hz):
            card.close()
            pytest.skip("the card does not count time in cycles")
        loaded = load(card)
        start(card)
        for n in range(10_000):
            if disturbed:
                loaded.out.sync_from_device(REPLY)
                card.alloc(4096, 0).free()
            if card.read32(ADDR_CTRL) & CTRL_DONE:
                reads.append(n)
                break
        assert loaded.code() == Status.OK
        card.close()
    assert len(reads) == 2
    assert reads[0] == reads[1] > 10


def test_start_falls_and_ready_rises_when_the_list_is_accepted(loaded: Loaded) -> None:
    start(loaded.card)
    seen = until_done(loaded.card)
    assert not seen & CTRL_START


def test_ready_clears_on_read(candidate: Candidate, loaded: Loaded) -> None:
    start(loaded.card)
    ready = 0
    for _ in range(1000):
        loaded.card.pause(0.1)
        register = loaded.card.read32(ADDR_CTRL)
        ready += bool(register & CTRL_READY)
        if register & CTRL_DONE:
            break
    assert ready == (0 if "ready" in candidate.lacks else 1)
    assert not loaded.card.read32(ADDR_CTRL) & CTRL_READY


def test_done_stays_until_continue(loaded: Loaded) -> None:
    start(loaded.card)
    until_done(loaded.card)
    loaded.card.pause(0.001)
    assert [loaded.card.read32(ADDR_CTRL) & (CTRL_DONE | CTRL_IDLE) for _ in range(3)] == [CTRL_DONE | CTRL_IDLE] * 3
    go_on(loaded.card)
    assert loaded.card.read32(ADDR_CTRL) == CTRL_IDLE


def test_a_start_before_continue_is_held_once(candidate: Candidate, loaded: Loaded) -> None:
    start(loaded.card)
    until_done(loaded.card)
    loaded.poison()
    if "second start" in candidate.lacks:
        with pytest.raises(TransportUnavailable, match="second START"):
            start(loaded.card)
        go_on(loaded.card)
        loaded.card.pause(0.001)
        assert loaded.card.read32(ADDR_CTRL) == CTRL_IDLE
        assert loaded.code() == 0xA5A5A5A5
        return
    start(loaded.card)
    start(loaded.card)
    loaded.card.pause(0.001)
    register = loaded.card.read32(ADDR_CTRL)
    assert register & (CTRL_DONE | CTRL_START | CTRL_IDLE) == CTRL_DONE | CTRL_START
    assert loaded.code() == 0xA5A5A5A5

    go_on(loaded.card)
    assert not loaded.card.read32(ADDR_CTRL) & CTRL_DONE
    until_done(loaded.card)
    assert loaded.code() == Status.OK

    loaded.poison()
    go_on(loaded.card)
    loaded.card.pause(0.001)
    assert loaded.card.read32(ADDR_CTRL) == CTRL_IDLE
    assert loaded.code() == 0xA5A5A5A5


def test_lists_run_one_after_the_other(loaded: Loaded) -> None:
    for _ in range(3):
        loaded.poison()
        start(loaded.card)
        until_done(loaded.card)
        go_on(loaded.card)
        assert loaded.code() == Status.OK


def test_auto_restart_is_ignored(loaded: Loaded) -> None:
    loaded.card.write32(ADDR_CTRL, CTRL_AUTO_RESTART)
    loaded.card.pause(0.001)
    assert loaded.card.read32(ADDR_CTRL) == CTRL_IDLE


def test_interrupt_status_follows_the_enables(candidate: Candidate, loaded: Loaded) -> None:
    card = loaded.card
    if "registers" in candidate.lacks:
        for register in (ADDR_GIER, ADDR_IP_IER, ADDR_IP_ISR):
            with pytest.raises(TransportUnavailable, match=f"register {register:#x} cannot be read"):
                card.read32(register)
            with pytest.raises(TransportUnavailable, match=f"register {register:#x} cannot be written"):
                card.write32(register, 1)
        return
    start(card)
    until_done(card)
    go_on(card)
    assert card.read32(ADDR_IP_ISR) == 0
    card.write32(ADDR_GIER, 1)
    card.write32(ADDR_IP_IER, IP_IER_DONE | IP_IER_READY)
    start(card)
    until_done(card)
    assert card.read32(ADDR_GIER) == 1
    assert card.read32(ADDR_IP_ISR) == IP_IER_DONE | IP_IER_READY
    card.write32(ADDR_IP_ISR, IP_IER_DONE)
    assert card.read32(ADDR_IP_ISR) == IP_IER_READY
    card.write32(ADDR_IP_ISR, IP_IER_READY)
    assert card.read32(ADDR_IP_ISR) == 0


@pytest.mark.parametrize("address", [0x1000, 0xFFFFF000, 0x100000000, 0x4000001000, 0xFEDCBA9876543000])
def test_arguments_read_back(candidate: Candidate, card: Transport, address: int) -> None:
    set_arguments(card, address, address + 64, address + 128)
    if "registers" in candidate.lacks:
        with pytest.raises(TransportUnavailable, match="cannot be read"):
            card.read32(ADDR_KV)
        with pytest.raises(BufferMisuse, match=f"KV = {address:#x}"):  # and such a START is refused
            start(card)
        return
    for register, value in ((ADDR_KV, address), (ADDR_CTL, address + 64), (ADDR_OUT, address + 128)):
        assert card.read32(register) | card.read32(register + 4) << 32 == value


@pytest.mark.parametrize("offset", [-4, 1, 2, 0x12, 1 << 16])
def test_registers_that_do_not_exist_are_refused(card: Transport, offset: int) -> None:
    with pytest.raises(ValueError, match="register"):
        card.read32(offset)
    with pytest.raises(ValueError, match="register"):
        card.write32(offset, 0)


@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_values_that_no_register_holds_are_refused(card: Transport, value: int) -> None:
    with pytest.raises(ValueError, match="32 bits"):
        card.write32(ADDR_KV, value)


AFTER_CLOSE: dict[str, Callable[[Transport], object]] = {
    "read32": lambda c: c.read32(0),
    "write32": lambda c: c.write32(ADDR_KV, 0),
    "alloc": lambda c: c.alloc(4096, 0),
    "pause": lambda c: c.pause(0),
    "info": lambda c: c.info(),
}


@pytest.mark.parametrize("call", AFTER_CLOSE)
def test_calls_after_close_are_refused(candidate: Candidate, call: str) -> None:
    card = candidate.open()
    card.close()
    card.close()
    with pytest.raises(DriverError):
        AFTER_CLOSE[call](card)


def test_buffers_end_with_their_card(candidate: Candidate) -> None:
    card = candidate.open()
    buffer = card.alloc(4096, card.info().masters["kv"])
    card.close()
    with pytest.raises(DriverError):
        buffer.read(1)
    buffer.free()


def test_close_with_a_list_in_flight(candidate: Candidate) -> None:
    card = candidate.open()
    info = card.info()
    out = card.alloc(4096, info.masters["out"])
    ctl = card.alloc(4096, info.masters["ctl"])
    set_arguments(card, out.address, ctl.address, out.address)
    start(card)
    card.close()
    with pytest.raises(DriverError):
        card.pause(0)
