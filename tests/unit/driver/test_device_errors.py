# SPDX-License-Identifier: Apache-2.0
"""What the driver says when a card refuses, stalls, lies or leaves."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import pytest
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import (
    BuildMismatch,
    DeviceGone,
    DeviceTimeout,
    DriverError,
    JobError,
    OutOfDeviceMemory,
    ReplyIncomplete,
)
from nearkv_driver.regmap import (
    NOT_APPLICABLE,
    Kind,
    Status,
    StatusFlag,
)
from nearkv_emulation.faults import CardFaults, FaultyTransport
from nearkv_emulation.model import ModelKernel

from tests.support.cards import SMALL, card_with, job_over, stored
from tests.support.scripted_kernel import ScriptedKernel, status


@dataclass
class Clock:
    """Seconds that pass only when a test says so."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def scripted(kernel: ScriptedKernel) -> NearDevice:
    return NearDevice.open(card_with(kernel))


@pytest.mark.parametrize(
    ("identity", "what", "values"),
    [
        ({"magic": 7}, "identity magic", ("0x49564b4e", "0x00000007")),
        ({"version": 9}, "contract version", ("wants 1", "has 9")),
        ({"regmap_hash": 0xABCD}, "regmap_hash", ("0x8fb079f3", "0x0000abcd")),
        ({"implementation": 77}, "implementation", ("1 (hls)", "77")),
    ],
)
def test_another_build_is_refused_by_name(identity: dict[str, int], what: str, values: tuple[str, ...]) -> None:
    card = card_with(ScriptedKernel(identity=identity))
    with pytest.raises(BuildMismatch, match=what) as caught:
        NearDevice.open(card)
    assert all(value in str(caught.value) for value in values)
    with pytest.raises(DriverError, match="closed"):
        card.info()


def test_a_kernel_that_refuses_our_version_is_another_build() -> None:
    kernel = ScriptedKernel(refusal=status(Status.BAD_LIST, NOT_APPLICABLE, detail=4))
    with pytest.raises(BuildMismatch, match="contract version"):
        scripted(kernel)


STATUSES: list[tuple[dict[str, int], str]] = [
    (status(Status.BAD_JOB, 1, detail=28), "bad_job: job.scale_exponent is refused"),
    (status(Status.BAD_JOB, 1, detail=130), "bad_job: reserved word of job at byte 130 is refused"),
    (status(Status.BAD_LIMIT, 1, detail=4, position=2), "bad_limit: limit.limit of query token 2 is refused"),
    (status(Status.BAD_SEGMENT, 1, detail=24, segment=5), "bad_segment: segment.crc_addr of segment 5 is refused"),
    (
        status(Status.CRC_MISMATCH, 1, segment=2, page=7, kind=Kind.V),
        "crc_mismatch: page 7 of V in segment 2 differs from its checksum",
    ),
    (
        status(Status.NONFINITE_KV, 1, segment=0, kind=Kind.K, position=99),
        "nonfinite_kv: Inf or NaN in K at position 99, segment 0",
    ),
    (status(Status.NONFINITE_Q, 1, kind=Kind.Q, position=2), "nonfinite_q: Inf or NaN in q, row 2"),
    (status(Status.BAD_STATE, 1, kind=Kind.STATE, position=1), "bad_state: state_in is no state, row 1"),
    (
        status(Status.AXI_READ, 1, detail=0, address=0x4000000040),
        "axi_read: a read on m_axi_kv at 0x4000000040 was answered with an error",
    ),
    (
        status(Status.AXI_WRITE, 1, detail=2, address=64),
        "axi_write: a write on m_axi_out at 0x40 was answered with an error",
    ),
]


@pytest.mark.parametrize(("told", "text"), STATUSES)
def test_a_failed_job_says_what_failed(told: dict[str, int], text: str) -> None:
    kernel = ScriptedKernel([status(Status.OK, 0), told, status(Status.NOT_RUN, 2)])
    with scripted(kernel) as device:
        with pytest.raises(JobError) as caught:
            device.attend([job_over(None, limits=((0, 0),))] * 3)
        assert str(caught.value) == f"{SMALL}: job 1 of 3: {text}"
        assert (caught.value.code, caught.value.job) == (text.partition(":")[0], 1)
        assert told.items() <= caught.value.status.items()
        kernel.statuses = ()
        device.attend([job_over(None, limits=((0, 0),))])


def test_masters_on_different_banks_are_another_build() -> None:
    card = card_with(ModelKernel(), f"{SMALL}&banks=2")
    card._info = replace(card._info, masters={"kv": 1, "ctl": 0, "out": 0})
    with pytest.raises(BuildMismatch, match=r"all masters on one bank.*m_axi_kv on DDR\[1\], m_axi_ctl on DDR\[0\]"):
        NearDevice.open(card)


def test_a_list_that_does_not_fit_the_card_leaves_the_device_as_it_was() -> None:
    with NearDevice.open(card_with(ModelKernel(), "sw_emu:test?dram=1M&kernel=model")) as device:
        filler = device.alloc(300 << 10)
        large = [job_over(None, rows=64, head_size=256)] * 8
        with pytest.raises(OutOfDeviceMemory):
            device.submit(large)
        device.attend([job_over(None)])
        filler.free()
        device.attend([job_over(None)])


def test_a_refused_list_names_the_field() -> None:
    kernel = ScriptedKernel()
    with scripted(kernel) as device:
        kernel.refusal = status(Status.BAD_LIST, NOT_APPLICABLE, detail=80)
        with pytest.raises(JobError, match=re.escape("list refused: bad_list: list.out_window_nbytes is refused")):
            device.attend([job_over(None)] * 2)


def test_codes_that_do_not_exist_are_errors() -> None:
    with (
        scripted(ScriptedKernel([status(999, 0)])) as device,
        pytest.raises(JobError, match="unknown status code 0x3e7"),
    ):
        device.attend([job_over(None)])


def test_an_ok_status_in_the_wrong_place_is_an_error() -> None:
    with scripted(ScriptedKernel([status(Status.OK, 1)])) as device, pytest.raises(JobError, match="job 0 of 1"):
        device.attend([job_over(None)])


def test_a_status_that_was_not_written_is_an_error() -> None:
    with (
        scripted(ScriptedKernel([status(Status.OK, 0), None])) as device,
        pytest.raises(ReplyIncomplete, match="job 1 of 2 has no status") as caught,
    ):
        device.attend([job_over(None)] * 2)
    assert caught.value.job == 1


@pytest.mark.parametrize("raw", [False, True])
def test_an_output_that_was_not_written_is_an_error(raw: bool) -> None:
    with (
        scripted(ScriptedKernel(writes_output=False)) as device,
        pytest.raises(ReplyIncomplete, match="job 0 reports ok, but its output is unwritten"),
    ):
        device.attend([job_over(None, raw=raw)])


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9, 0.999])
def test_a_part_of_the_output_is_never_returned(share: float) -> None:
    card = FaultyTransport(card_with(ModelKernel()))
    with NearDevice.open(card) as device:
        buffer, _, _ = stored(device)
        nbytes = 2 * 64 + 2 * (3 * 256 + 64)
        card.faults = CardFaults(reply_nbytes_kept=int(nbytes * share))
        with pytest.raises(ReplyIncomplete):
            device.attend([job_over(buffer)] * 2)


def test_a_saturated_score_is_reported_and_counted() -> None:
    with scripted(ScriptedKernel([status(Status.OK, 0, flags=StatusFlag.SATURATED)])) as device:
        first, second = device.attend([job_over(None)] * 2)
        assert (first.saturated, second.saturated) == (True, False)
        assert device.traffic.saturated_jobs == 1


def test_the_time_limit_names_card_register_and_progress() -> None:
    clock = Clock()
    card = _Ticking(FaultyTransport(card_with(ScriptedKernel([status(Status.OK, 0), None]))), clock)
    device = NearDevice.open(card, timeout_s=2.0, clock=clock)
    card.inner.faults = CardFaults(never_done=True)
    with pytest.raises(DeviceTimeout, match=r"no end after 2\.0 s: CTRL = 0x[0-9a-f]+, 1 of 2 jobs ended") as caught:
        device.attend([job_over(None)] * 2)
    error = caught.value
    assert str(error).startswith(SMALL)
    assert 2.0 <= error.elapsed_s < 2.01
    assert error.progress == ("job 0: ok", "job 1: not ended")
    for call in (lambda: device.attend([job_over(None)]), lambda: device.alloc(1), lambda: device.submit([])):
        with pytest.raises(DriverError, match=r"did not end in time; open it again"):
            call()
    device.close()


def test_a_time_limit_of_one_call() -> None:
    clock = Clock()
    card = _Ticking(FaultyTransport(card_with(ScriptedKernel())), clock)
    with NearDevice.open(card, timeout_s=1000, clock=clock) as device:
        card.inner.faults = CardFaults(never_done=True)
        with pytest.raises(DeviceTimeout, match=r"after 0\.5 s"):
            device.attend([job_over(None)], timeout_s=0.5)


@pytest.mark.parametrize("reads", [0, 1, 3])
def test_a_card_that_leaves_the_bus(reads: int) -> None:
    card = FaultyTransport(card_with(ModelKernel()))
    with NearDevice.open(card) as device:
        card.faults = CardFaults(gone_after_reads=card.reads + reads)
        with pytest.raises(DeviceGone, match="0xffffffff"):  # noqa: PT012  the loop ends by the error
            for _ in range(4):
                device.attend([job_over(None)])
        with pytest.raises(DriverError, match="left the bus; open it again"):
            device.attend([job_over(None)])


def test_a_kernel_that_crashes_is_a_device_error() -> None:
    kernel = ScriptedKernel()
    with scripted(kernel) as device:
        kernel.identity = {"no such field": 1}
        kernel.statuses = [{"nonsense": 1}]
        with pytest.raises(DriverError, match="the emulated kernel failed"):
            device.attend([job_over(None)])
        with pytest.raises(DriverError, match="open it again"):
            device.attend([job_over(None)])


@dataclass
class _Ticking:
    """Passes everything on; a pause takes no time but moves the clock."""

    inner: FaultyTransport
    clock: Clock

    def pause(self, seconds: float) -> None:
        self.inner.pause(0.001)
        self.clock.now += seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
