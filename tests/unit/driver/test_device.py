# SPDX-License-Identifier: Apache-2.0
"""The driver above any transport: handshake, results, errors, counters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from nearkv_driver.commands import AttendResult, RawResult, segments
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import (
    BufferMisuse,
    BuildMismatch,
    DeviceGone,
    DeviceTimeout,
    DriverError,
    JobError,
    ReplyIncomplete,
)
from nearkv_driver.regmap import (
    ADDR_CTL,
    ADDR_KV,
    ADDR_OUT,
    EMPTY_T,
    HEAD_SIZES,
    NOT_APPLICABLE,
    Implementation,
    Kind,
    Status,
    StatusFlag,
)
from nearkv_driver.sizes import padded, state_nbytes
from nearkv_driver.transport import Buffer, Transport
from nearkv_emulation.faults import CardFaults, FaultyTransport
from nearkv_emulation.model import ModelKernel

from tests.support.cards import SMALL, card_with, job_over
from tests.support.scripted_kernel import ScriptedKernel, status


@dataclass
class Clock:
    """Seconds that pass only when a test says so."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def device() -> Iterator[NearDevice]:
    with NearDevice.open(card_with(ModelKernel())) as opened:
        yield opened


def scripted(kernel: ScriptedKernel) -> NearDevice:
    return NearDevice.open(card_with(kernel))


def stored(device: NearDevice, tokens: int = 128, head_size: int = 64, seed: int = 3) -> tuple[Buffer, Any, Any]:
    rng = np.random.default_rng(seed)
    k, v = (rng.normal(size=(tokens, head_size)).astype(np.float16) for _ in range(2))
    rows = np.zeros((2, tokens, padded(head_size)), np.float16)
    rows[0, :, :head_size], rows[1, :, :head_size] = k, v
    buffer = device.alloc(rows.nbytes)
    device.upload(buffer, rows.tobytes())
    return buffer, k, v


def attention(q: Any, k: Any, v: Any, scale: float) -> Any:
    scores = q.astype(float) @ k.astype(float).T * scale
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ v.astype(float) / weights.sum(1, keepdims=True)


def test_open_by_url_and_identity() -> None:
    with NearDevice.open(SMALL) as device:
        assert device.url == SMALL
        assert device.identity.implementation == Implementation.MODEL
        assert device.identity.head_sizes == HEAD_SIZES
        assert device.info.simulated


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


@pytest.mark.parametrize("timeout_s", [0, -1])
def test_a_time_limit_is_above_zero(timeout_s: float) -> None:
    with pytest.raises(ValueError, match="timeout_s"):
        NearDevice.open(SMALL, timeout_s=timeout_s)


@pytest.mark.parametrize("head_size", HEAD_SIZES)
def test_attention_over_stored_and_new_tokens(device: NearDevice, head_size: int) -> None:
    buffer, k, v = stored(device, head_size=head_size)
    new_k, new_v = np.full((1, head_size), 0.5, np.float16), np.full((1, head_size), -2, np.float16)
    job = job_over(buffer, head_size=head_size, limits=((0, 129),), new_k=new_k, new_v=new_v, new_first=128)
    (result,) = device.attend([job])
    assert isinstance(result, AttendResult)
    want = attention(job.q, np.vstack((k, new_k)), np.vstack((v, new_v)), job.scale)
    assert result.o.shape == (3, head_size)
    # docs/arithmetic.md bounds the state at 1e-7; FP32 output rounds to 6e-8 of each element.
    assert np.abs(result.o / result.l[:, None] - want).max() < 1e-6
    assert result.beats == 2 * 128 * padded(head_size) * 2 // 64
    assert not result.saturated


def test_results_stay_valid_after_the_next_list(device: NearDevice) -> None:
    buffer, _, _ = stored(device)
    (first,) = device.attend([job_over(buffer)])
    kept = first.o.copy()
    device.attend([job_over(buffer, q=np.ones((3, 64), np.float32))])
    assert np.array_equal(first.o, kept)


def test_raw_results_hold_the_same_state(device: NearDevice) -> None:
    buffer, _, _ = stored(device)
    plain, raw = device.attend([job_over(buffer), job_over(buffer, raw=True)])
    assert isinstance(raw, RawResult)
    assert isinstance(plain, AttendResult)
    weights = 2.0 ** -np.array([0, 32, 64])
    assert np.array_equal((raw.o * weights[None, :, None]).sum(1).astype(np.float32), plain.o)
    assert np.array_equal((raw.l * weights).sum(1).astype(np.float32), plain.l)
    assert np.array_equal(raw.t, plain.t)


def test_a_state_travels_between_jobs_on_the_card(device: NearDevice) -> None:
    buffer, _, _ = stored(device)
    state = device.alloc(state_nbytes(3, 64))
    k, v = buffer.address, buffer.address + 128 * 128
    first = job_over(buffer, segments=segments([(64, 0, k, v, 0)]), output=False, state_out=state.address)
    then = job_over(buffer, segments=segments([(64, 64, k + 64 * 128, v + 64 * 128, 0)]), state_in=state.address)
    nothing, split = device.attend([first, then])
    (whole,) = device.attend([job_over(buffer)])
    assert nothing.o.shape == (0, 64)
    assert np.array_equal(split.o, whole.o)
    assert np.array_equal(split.l, whole.l)


def test_new_rows_reach_the_tail(device: NearDevice) -> None:
    tail = device.alloc(2 * 4096)
    new = np.arange(64, dtype=np.float16)[None, :]
    job = job_over(
        None, limits=((0, 1),), new_k=new, new_v=-new, tail_k_addr=tail.address, tail_v_addr=tail.address + 4096
    )
    device.attend([job])
    tail.sync_from_device(2 * 4096)
    assert np.array_equal(np.frombuffer(tail.read(128), np.float16), new[0])
    assert np.array_equal(np.frombuffer(tail.read(128, 4096), np.float16), -new[0])


def test_rows_that_see_nothing_are_empty(device: NearDevice) -> None:
    (result,) = device.attend([job_over(None, limits=((0, 0),))])
    assert not result.o.any()
    assert not result.l.any()
    assert result.t.tolist() == [EMPTY_T] * 3


def test_no_jobs_are_no_work(device: NearDevice) -> None:
    before = device.traffic
    assert device.attend([]) == []
    assert device.traffic == before


def test_buffers_grow_with_the_list(device: NearDevice) -> None:
    buffer, _, _ = stored(device)
    (one,) = device.attend([job_over(buffer)])
    many = device.attend([job_over(buffer)] * 300)
    assert all(np.array_equal(r.o, one.o) for r in many)


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


def test_one_list_at_a_time(device: NearDevice) -> None:
    ticket = device.submit([job_over(None)])
    with pytest.raises(BufferMisuse, match="in flight"):
        device.submit([job_over(None)])
    device.wait(ticket)
    with pytest.raises(ValueError, match="not the list in flight"):
        device.wait(ticket)


def test_refused_jobs_leave_the_device_as_it_was(device: NearDevice) -> None:
    before = device.traffic
    with pytest.raises(ValueError, match="head_size"):
        device.submit([job_over(None, head_size=64), job_over(None, head_size=65)])
    assert device.traffic == before
    device.attend([job_over(None)])


@pytest.mark.parametrize("base", [0x1000, 0xFFFFF000, 0x100000000, 0x4000001000])
def test_pointers_arrive_whole(base: int) -> None:
    card = card_with(ModelKernel(), f"{SMALL}&base={base:#x}")
    with NearDevice.open(card) as device:
        buffer, k, v = stored(device)
        job = job_over(buffer)
        (result,) = device.attend([job])
        assert np.abs(result.o / result.l[:, None] - attention(job.q, k, v, job.scale)).max() < 1e-6
        pointers = {a: card.read32(a) | card.read32(a + 4) << 32 for a in (ADDR_KV, ADDR_CTL, ADDR_OUT)}
        assert pointers[ADDR_KV] == base
        assert base <= pointers[ADDR_CTL] < pointers[ADDR_OUT] < base + (16 << 20)


def test_calls_after_close_are_refused() -> None:
    device = NearDevice.open(SMALL)
    device.close()
    device.close()
    for call in (lambda: device.alloc(1), lambda: device.attend([job_over(None)])):
        with pytest.raises(DriverError, match="closed"):
            call()


@pytest.mark.parametrize("head_size", [64, 80])
def test_link_payload_is_the_formula_and_totals_are_what_was_synced(head_size: int) -> None:
    card = _Counting(card_with(ModelKernel()))
    query_heads, kv_heads, d = 9, 3, padded(head_size)
    with NearDevice.open(card) as device:
        buffer, _, _ = stored(device, head_size=head_size)
        new = np.ones((1, head_size), np.float16)
        before = device.traffic
        job = job_over(buffer, head_size=head_size, limits=((0, 129),), new_k=new, new_v=new, new_first=128)
        device.attend([job] * kv_heads)
        t = device.traffic
        moved = t.down_payload - before.down_payload + t.up_payload - before.up_payload
        assert moved == query_heads * d * 4 + 2 * kv_heads * d * 2 + query_heads * (d * 4 + 8)
        assert t.down_payload + t.down_overhead + t.upload_nbytes == card.down
        assert t.up_payload + t.up_overhead == card.up
        assert (t.jobs, t.lists, t.upload_nbytes) == (3, 1, buffer.nbytes)
        assert t.kv_beats == kv_heads * buffer.nbytes // 64


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


@dataclass
class _Counting:
    """Counts the bytes that buffers sync."""

    inner: Transport
    down: int = 0
    up: int = 0

    def alloc(self, nbytes: int, bank: int, p2p: bool = False) -> Buffer:
        return _CountingBuffer(self.inner.alloc(nbytes, bank, p2p), self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass
class _CountingBuffer:
    inner: Buffer
    card: _Counting = field(repr=False)

    def sync_to_device(self, nbytes: int, offset: int = 0) -> None:
        self.card.down += nbytes
        self.inner.sync_to_device(nbytes, offset)

    def sync_from_device(self, nbytes: int, offset: int = 0) -> None:
        self.card.up += nbytes
        self.inner.sync_from_device(nbytes, offset)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
