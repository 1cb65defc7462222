# SPDX-License-Identifier: Apache-2.0
"""The hw_emu card through the driver: the bits of the model, under stalls, errors, any start and any address."""

from __future__ import annotations

import signal
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import JobError
from nearkv_driver.regmap import ADDR_CTL, ADDR_KV, ADDR_OUT, Implementation
from nearkv_driver.transport import Buffer

from tests.support.cards import job_over, stored
from tests.support.rtl_cards import Bits, attended, bits, hole, reference, rtl_card, rtl_device, segment_job
from tests.support.rtl_tools import needs_verilator, patient
from tests.support.transports import refuse_stray_pointers, set_arguments, start

pytestmark = [needs_verilator, patient]

MHZ = 300


def test_the_kernel_is_the_rtl_and_gives_the_bits_of_the_model() -> None:
    with rtl_device() as (device, _):
        assert device.identity.implementation == Implementation.RTL
        assert device.info.clock_hz == MHZ * 10**6
        for tokens in (1, 17, 128, 300):
            assert attended(device, tokens) == reference(tokens)
        traffic = device.traffic
    assert traffic.kernel_cycles > traffic.kv_beats > 0


@pytest.mark.parametrize("seed", range(1, 21))
def test_stalls_and_reordering_change_no_bit(seed: int) -> None:
    """Every channel stalls at random and answers of different ids change places, on both memories."""
    memory = ("ideal", "ddr4-2400")[seed % 2]
    options = f"&seed={seed}&stall={4 * seed}&reorder={5 * seed}&latency={7 * seed}&memory={memory}"
    with rtl_device(options) as (device, _):
        for tokens in (33, 150):
            assert attended(device, tokens) == reference(tokens)


@pytest.mark.parametrize("memory", ["ideal", "ddr4-2400"])
@pytest.mark.parametrize("master", ["kv", "ctl", "out"])
def test_memory_that_does_not_answer_is_an_error_status_and_the_next_list_is_clean(master: str, memory: str) -> None:
    with rtl_device(f"&memory={memory}") as (device, card):
        buffer, _, _ = stored(device)
        tail = device.alloc(8192)
        rows = job_over(None).q[:1].astype(np.float16)
        adding = job_over(None, new_k=rows, new_v=rows, tail_k_addr=tail.address, tail_v_addr=tail.address + 4096)
        job, address, what = {
            "kv": (job_over(buffer), buffer.address + 4096, "axi_read: a read"),
            "ctl": (job_over(buffer, state_in=tail.address), tail.address, "axi_read: a read"),
            "out": (adding, tail.address + 4096, "axi_write: a write"),
        }[master]
        with (
            hole(card, master, address),
            pytest.raises(JobError, match=rf"{what} on m_axi_{master} at {address:#x} was answered with an error"),
        ):
            device.attend([job])
        assert attended(device, 128) == reference(128)


@pytest.mark.parametrize("seed", range(1, 21))
def test_whatever_registers_start_with_and_whatever_ran_before(seed: int) -> None:
    """Runs of 64, 1, 17 and 64 tokens, the first at once after a reset of 1 or 20 clocks."""
    card = rtl_card(f"&seed={seed}")
    card.rtl.reset((1, 20)[seed % 2])
    with NearDevice.open(card) as device:
        runs = [attended(device, tokens) for tokens in (64, 1, 17, 64)]
    assert runs == [reference(tokens) for tokens in (64, 1, 17, 64)]
    assert runs[3] == runs[0]


ADDRESSES = (0x1000, 0xFFFFF000, 0x1_0000_0000, 0x40_0000_1000)


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_list_at_any_address(address: int) -> None:
    """The list begins at `address`, all else lies behind it; the registers hold both words of each pointer."""
    with rtl_device(f"&base={address}") as (device, card):
        assert attended(device, 100) == reference(100)
        pointers = [(card.read32(at), card.read32(at + 4)) for at in (ADDR_KV, ADDR_CTL, ADDR_OUT)]
    out = address + (1 << 16)  # each message has room for 64 KiB
    assert pointers == [(at & 0xFFFFFFFF, at >> 32) for at in (address, address, out)]


def place(device: NearDevice, address: int) -> Buffer:
    """A buffer of a page at `address`: what is free below is taken first, as P2P memory, which costs the host none."""
    while True:
        probe = device.alloc(4096, p2p=True)
        at = probe.address
        probe.free()
        assert at <= address
        if at == address:
            return device.alloc(4096)
        device.alloc(min(address - at, (1 << 32) - 4096), p2p=True)


def attended_far_apart(url: str) -> tuple[Bits, int]:
    """K and V in turn at three addresses of one bank, and the memory that this process has then."""
    with NearDevice.open(url) as device:
        buffers = [place(device, address) for address in ADDRESSES[1:]]
        rng = np.random.default_rng(4)
        for buffer in buffers:
            device.upload(buffer, rng.normal(size=(32, 64)).astype(np.float16).tobytes())
        at = [buffer.address for buffer in buffers]
        results = device.attend([segment_job(at[k], at[(k + 1) % 3], 32) for k in range(3)])
        return bits(results), resident_nbytes()


def test_a_bank_of_257_gib_costs_what_is_touched() -> None:
    before = resident_nbytes()
    options = "0?base=0x1000&dram=257G"
    got, after = attended_far_apart(f"hw_emu:{options}&memory=ddr4-2400")
    assert after - before < 1 << 30
    assert got == attended_far_apart(f"sw_emu:{options}&kernel=model")[0]


def test_a_list_starts_with_pointers_into_live_buffers_of_its_bank() -> None:
    refuse_stray_pointers(rtl_card("&banks=2"))


def test_time_is_that_of_the_clock_and_idle_time_costs_nothing() -> None:
    card = rtl_card("&clock=250M")
    began, before = time.monotonic(), card.rtl.cycles
    card.pause(3.0)
    card.pause(-1.0)
    assert card.rtl.cycles - before == 750_000_000
    assert time.monotonic() - began < 60
    card.close()


@cache
def cycles_of_a_list(options: str) -> int:
    with rtl_device(options) as (device, _):
        buffer, _, _ = stored(device, 2000)
        (result,) = device.attend([job_over(buffer, 2000)])
        return result.cycles


@pytest.mark.parametrize(
    ("faster", "slower", "least"),
    [
        ("", "&latency=240", 1.09),  # five latencies remain in a list, see docs/rtl.md
        ("", "&stall=50", 1.5),
        ("&memory=ddr4-2400", "&memory=ddr4-2400,mhz:600", 1.7),
        ("&memory=ddr4-2400&clock=150M", "&memory=ddr4-2400", 1.02),  # DRAM waits are fewer cycles of a slow clock
    ],
)
def test_options_of_the_memory_reach_it(faster: str, slower: str, least: float) -> None:
    assert cycles_of_a_list(slower) > least * cycles_of_a_list(faster)


def test_the_same_calls_take_the_same_cycles() -> None:
    """Nothing depends on how fast the machine is."""
    cycles = []
    for _ in range(2):
        with rtl_device("&memory=ddr4-2400&stall=20&reorder=20&seed=5") as (device, card):
            attended(device, 1000)
            cycles.append((card.rtl.cycles, device.traffic.kernel_cycles))
    assert cycles[0] == cycles[1]


def test_pages_from_a_drive_take_their_time_before_a_start_and_bandwidth_after_it() -> None:
    """3 GB/s are 10 bytes per cycle of 300 MHz. What is on its way at a START has come; what comes later disturbs."""
    cycles = []
    for disturbed in (False, True):
        with rtl_device("&memory=ddr4-2400&fill=12G") as (device, card):
            buffer, _, _ = stored(device, 4000)
            pages = device.alloc(1 << 20, p2p=True)
            before = card.rtl.cycles
            pages.view(1 << 20)
            ticket = device.submit([job_over(buffer, 4000)])
            assert card.rtl.cycles - before >= (1 << 20) / 40
            assert card.rtl.words(3) == (1 << 20) // 64
            if disturbed:
                pages.view(1 << 19)
                pages.view(1 << 19, 1 << 19)
            (result,) = device.wait(ticket)
            cycles.append(result.cycles)
    assert cycles[1] > 1.1 * cycles[0]


class Interrupted(Exception):
    """What the handler of a signal raises."""


def test_an_interrupt_comes_through_while_a_list_runs() -> None:
    card = rtl_card()
    buffer = card.alloc(4096, 0)
    card.rtl.hang_after(0)
    set_arguments(card, buffer.address, buffer.address, buffer.address)

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        start(card)
        began = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Interrupted):
            card.pause(3600.0)
        assert time.monotonic() - began < 20
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        card.close()


def resident_nbytes() -> int:
    """Memory of this process as the system counts it, in KiB."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024
