# SPDX-License-Identifier: Apache-2.0
"""A simulated kernel that never ends: the driver gives up in time, says where it stands, and returns no output."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from nearkv_driver.decode import POISON
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import DeviceTimeout, DriverError
from nearkv_driver.registry import parse_url
from nearkv_driver.regmap import ADDR_OUT, CTRL_DONE, CTRL_IDLE, CTRL_START
from nearkv_driver.sizes import output_nbytes
from nearkv_emulation import rtl_build
from nearkv_emulation.faults import CardFaults, FaultyTransport
from nearkv_emulation.hw_emu import HwEmuCard
from nearkv_emulation.hw_emu_options import options_of
from nearkv_emulation.rtl import RtlCard
from numpy.typing import NDArray

from tests.support.cards import job_over, stored
from tests.support.rtl_cards import SMALL_RTL, attended, reference, rtl_card, rtl_device
from tests.support.rtl_copies import changed
from tests.support.rtl_tools import needs_verilator, patient

pytestmark = [needs_verilator, patient]

ROWS = 16
OUTPUT_WORDS = output_nbytes(ROWS, 64) // 64


def reply(card: HwEmuCard, words: int) -> NDArray[np.uint8]:
    """What lies in card memory where the list's reply goes, in rows of a word."""
    assert card.rtl.masters is not None
    (region,) = card.rtl.masters.out
    at = (card.read32(ADDR_OUT) | card.read32(ADDR_OUT + 4) << 32) - region.base
    return region.memory[at : at + 64 * words].reshape(words, 64)


def again() -> None:
    """What the error asks for: a new device."""
    with rtl_device() as (device, _):
        assert attended(device, 100) == reference(100)


def test_a_kernel_that_stops_after_a_quarter_of_its_output() -> None:
    card = rtl_card()
    device = NearDevice.open(card, timeout_s=2.0)
    buffer, _, _ = stored(device)
    jobs = [job_over(buffer), job_over(buffer, rows=ROWS)]
    first = output_nbytes(3, 64) // 64 + 1  # the first job's output and status
    card.rtl.hang_after(card.rtl.words(2) + first + OUTPUT_WORDS // 4)
    began = time.monotonic()
    with pytest.raises(DeviceTimeout) as caught:
        device.attend(jobs)
    # The machine may be busy with other tests: the limit itself is held to its third second, the process is not.
    assert 2.0 <= caught.value.elapsed_s < 3.0
    assert time.monotonic() - began < 30
    error = caught.value
    assert (error.card, error.progress) == (f"{SMALL_RTL}", ("job 0: ok", "job 1: not ended"))
    assert error.register & (CTRL_DONE | CTRL_IDLE | CTRL_START) == 0
    assert error.cycles > 0
    for part in ("nearkv_attend: no end after", "cycles", "CTRL = 0x", "1 of 2 jobs ended", "open it again"):
        assert part in str(error)
    # A quarter of the output lies in card memory, poison in the rest, and none of it was returned.
    unwritten = (reply(card, 2 + first - 1 + OUTPUT_WORDS) == POISON).all(axis=1)
    assert unwritten.sum() == OUTPUT_WORDS - OUTPUT_WORDS // 4 + 1  # and the status of the second job
    assert not unwritten[[0, *range(2, 2 + first - 1)]].any()
    for call in (lambda: device.attend(jobs), lambda: device.alloc(1)):
        with pytest.raises(DriverError, match="did not end in time; open it again"):
            call()
    device.close()
    again()


def test_done_that_is_never_seen_is_given_up_by_the_card_s_own_clock() -> None:
    """The list below ends; time goes on, which costs the machine nothing."""
    card = FaultyTransport(rtl_card("&timeout_cycles=2000000"))
    device = NearDevice.open(card)
    buffer, _, _ = stored(device)
    card.faults = CardFaults(never_done=True)
    with pytest.raises(DeviceTimeout, match=r"no end after 2000000 cycles \(6\.667 ms at 300 MHz") as caught:
        device.attend([job_over(buffer)])
    assert (caught.value.cycles, caught.value.progress) == (2_000_000, ("job 0: ok",))
    assert caught.value.register & CTRL_DONE == 0
    device.close()
    again()


def test_a_limit_in_cycles_ends_a_list_that_is_long_and_sound() -> None:
    with rtl_device("&timeout_cycles=1000") as (device, _):
        buffer, _, _ = stored(device, 1000)
        with pytest.raises(DeviceTimeout, match=r"no end after 1000 cycles") as caught:
            device.attend([job_over(buffer, 1000)])
        assert caught.value.elapsed_s < 30
    with rtl_device("&timeout_cycles=20000") as (device, _):
        assert attended(device, 1000) == reference(1000)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_kernel_built_with_done_tied_low(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = changed(tmp_path, "fpga/rtl/control_registers.v", "done_reg <= 1'b1;", "done_reg <= 1'b0;") / "fpga/rtl"
    monkeypatch.setattr(rtl_build, "rtl_folder", lambda: sources)
    options = options_of(parse_url(f"{SMALL_RTL}&timeout_cycles=100000"))
    card = HwEmuCard(options, RtlCard(cache=tmp_path / "cache"))
    with pytest.raises(DeviceTimeout, match=r"no end after 100000 cycles") as caught:
        NearDevice.open(card)
    # The kernel has ended the list and fallen idle; only DONE never came.
    assert (caught.value.register & (CTRL_DONE | CTRL_IDLE), caught.value.progress) == (CTRL_IDLE, ("job 0: ok",))
