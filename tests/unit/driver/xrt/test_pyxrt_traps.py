# SPDX-License-Identifier: Apache-2.0
"""What pyxrt does that a driver must know: each of its traps once, in an old version and in a new one."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import BufferMisuse, DriverError, OutOfDeviceMemory, RunFailed, TransportUnavailable
from nearkv_driver.regmap import ADDR_CTRL, CTRL_CONTINUE, CTRL_DONE, CTRL_IDLE, CTRL_START
from nearkv_driver.transport import Transport

from tests.support.cards import job_over, stored
from tests.support.fake_pyxrt import Script, settle
from tests.support.transports import set_arguments, start, until_done
from tests.support.xrt_machines import Rig, rig

VERSIONS = ("2.13", "2.25")


@pytest.fixture(params=VERSIONS)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    return rig(tmp_path, Script(version=request.param))


def test_attention_through_pyxrt_equals_the_reference(machine: Rig) -> None:
    """And nothing deprecated is used where there is something newer."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with NearDevice.open(machine.open()) as device:
            buffer, k, v = stored(device)
            job = job_over(buffer, rows=1)
            (result,) = device.attend([job])
    scores = (job.q[0].astype(np.float64) @ k.T.astype(np.float64)) * job.scale
    weights = np.exp(scores - scores.max())
    expected = weights @ v.astype(np.float64) / weights.sum()
    np.testing.assert_allclose(result.o[0] / result.l[0], expected, rtol=0, atol=1e-5)


def test_arguments_are_buffers_above_4_gib_and_no_call_drops_one(machine: Rig) -> None:
    with NearDevice.open(machine.open()) as device:
        device.attend([job_over(None, limits=((0, 0),))])
    script = machine.script
    assert script.dropped == []
    assert len(script.arguments) == 2
    for kv, ctl, out in script.arguments:
        assert kv == ctl > 1 << 32
        assert out > 1 << 32
        assert 0x4000000000 not in (kv, ctl, out)  # the bank's base is no buffer's address


def test_waits_are_short_and_never_endless(machine: Rig) -> None:
    """A wait holds the interpreter lock, from 1000 ms on XRT 2.13 sleeps, and 0 means for ever."""
    machine.script.hold = threading.Event()
    card = machine.open()
    _arguments(card)
    start(card)
    card.pause(0.2)
    assert card.read32(ADDR_CTRL) == 0  # its time was up: XRT's word TIMEOUT for that is no end of the list
    machine.script.hold.set()
    until_done(card)
    card.close()
    assert machine.script.waits
    assert all(0 < ms <= 10 for ms in machine.script.waits)


def test_a_pause_may_be_of_no_length(machine: Rig) -> None:
    card = machine.open()
    _arguments(card)
    start(card)
    card.pause(0)
    card.close()


@pytest.mark.parametrize(("state", "name"), [(5, "ERROR"), (6, "ABORT"), (8, "TIMEOUT"), (9, "NORESPONSE"), (99, "99")])
def test_a_list_that_ended_badly_is_an_error_whatever_its_reply_holds(machine: Rig, state: int, name: str) -> None:
    with NearDevice.open(machine.open()) as device:
        machine.script.ends_as = state
        with pytest.raises(RunFailed, match=name) as caught:
            device.attend([job_over(None, limits=((0, 0),))])  # the kernel has written a whole reply
        assert name in caught.value.state
        machine.script.ends_as = 4
        with pytest.raises(DriverError, match="open it again"):
            device.attend([job_over(None, limits=((0, 0),))])
    with NearDevice.open(machine.open()) as device:
        device.attend([job_over(None, limits=((0, 0),))])


def test_a_full_bank_is_named_in_either_dialect(machine: Rig) -> None:
    card = machine.open()
    with pytest.raises(OutOfDeviceMemory, match=r"XRT made no buffer of 16777216 bytes in bank0.*full") as caught:
        card.alloc(16 << 20, 0)  # another program holds the first page
    assert caught.value.bank == "bank0"
    card.close()


def test_buffers_that_cannot_be_p2p_are_out_of_memory_or_refused(tmp_path: Path) -> None:
    for version in VERSIONS:
        (tmp_path / version).mkdir()
        machine = rig(tmp_path / version, Script(version=version, p2p=False))
        card = machine.open()
        assert not card.info().p2p
        assert "P2P is not enabled" in card.info().p2p_reason
        with pytest.raises(TransportUnavailable):
            card.alloc(4096, 0, p2p=True)
        card.close()


def test_a_unit_that_is_not_there_is_named(machine: Rig, tmp_path: Path) -> None:
    with pytest.raises(TransportUnavailable, match=r"no unit 'other'.*units: nearkv_attend_1"):
        machine.open("&cu=other")
    assert not any(machine.script.objects.values())


def test_everything_ends_in_xrts_order(machine: Rig) -> None:
    card = machine.open("&p2p=bounce")
    card.alloc(4096, 0)
    card.close()
    assert settle(machine.script, "device")
    kinds = [kind for i, kind in enumerate(machine.script.ended) if kind not in machine.script.ended[:i]]
    context = ["context"] if machine.script.newer else []
    assert kinds == ["run", "bo", "kernel", *context, "device"]


def test_a_context_manager_ends_everything_after_an_error(machine: Rig) -> None:
    def work() -> None:
        with NearDevice.open(machine.open()) as device:
            device.alloc(4096)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert settle(machine.script, "device")
    assert not any(machine.script.objects.values())


def test_a_view_outlives_its_buffer(machine: Rig) -> None:
    """pyxrt's own map does not keep the memory: a late look at it would read what is no longer there."""
    card = machine.open()
    buffer = card.alloc(4096, 0, p2p=True)
    view = buffer.view(4096)
    view[:3] = b"abc"
    buffer.free()
    assert bytes(view[:3]) == b"abc"
    assert machine.script.objects["bo"] == 1
    view.release()
    del view
    assert settle(machine.script, "bo")
    card.close()


def test_p2p_buffers_are_never_synced_and_take_no_bytes_from_the_cpu(machine: Rig) -> None:
    card = machine.open()
    buffer = card.alloc(4096, 0, p2p=True)
    for call in (buffer.sync_to_device, buffer.sync_from_device, buffer.read):
        with pytest.raises(BufferMisuse, match="P2P"):
            call(4096)
    card.close()


def test_nothing_of_registers_is_imitated(machine: Rig) -> None:
    with pytest.raises(TransportUnavailable, match="pyxrt has no access to registers; add api=native"):
        machine.open("&control=registers")
    card = machine.open("&p2p=bounce")
    for offset in (0x04, 0x08, 0x0C, 0x10, 0x24):
        with pytest.raises(TransportUnavailable, match=f"register {offset:#x}"):
            card.read32(offset)
    card.close()


@pytest.mark.parametrize("ends", [True, False])
def test_close_lets_a_list_end_and_says_when_it_does_not(
    machine: Rig, ends: bool, caplog: pytest.LogCaptureFixture
) -> None:
    hold = threading.Event()
    machine.script.hold = None if ends else hold
    card = machine.open("&p2p=bounce")
    _arguments(card)
    start(card)
    card.close()
    hold.set()
    assert ("closed while a list runs" in caplog.text) == (not ends)


def test_ctrl_says_what_xrt_says(machine: Rig) -> None:
    card = machine.open("&p2p=bounce")
    _arguments(card)
    assert card.read32(ADDR_CTRL) == CTRL_IDLE
    start(card)
    assert card.read32(ADDR_CTRL) == CTRL_START
    until_done(card)
    assert card.read32(ADDR_CTRL) == CTRL_DONE | CTRL_IDLE
    card.write32(ADDR_CTRL, CTRL_CONTINUE)
    assert card.read32(ADDR_CTRL) == CTRL_IDLE
    card.close()


def _arguments(card: Transport) -> None:
    ctl, out = card.alloc(4096, 0), card.alloc(4096, 0)
    set_arguments(card, ctl.address, ctl.address, out.address)
