# SPDX-License-Identifier: Apache-2.0
"""The driver above any transport: results, pointers, counters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from nearkv_driver.commands import AttendResult, RawResult, segments
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import (
    BufferMisuse,
    DriverError,
    OutOfDeviceMemory,
)
from nearkv_driver.regmap import (
    ADDR_CTL,
    ADDR_CTRL,
    ADDR_KV,
    ADDR_OUT,
    CTRL_START,
    EMPTY_T,
    HEAD_SIZES,
    Implementation,
)
from nearkv_driver.sizes import padded, state_nbytes
from nearkv_driver.transport import Buffer, Transport
from nearkv_emulation.model import ModelKernel

from tests.support.cards import SMALL, card_with, job_over, stored


@pytest.fixture(params=["model", "hls"])
def device(request: pytest.FixtureRequest) -> Iterator[NearDevice]:
    with NearDevice.open(f"sw_emu:test?dram=16M&kernel={request.param}") as opened:
        yield opened


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


def test_one_list_at_a_time(device: NearDevice) -> None:
    ticket = device.submit([job_over(None)])
    with pytest.raises(BufferMisuse, match="in flight"):
        device.submit([job_over(None)])
    device.wait(ticket)
    with pytest.raises(ValueError, match="not the list in flight"):
        device.wait(ticket)


def test_a_list_too_long_for_the_card_leaves_room_for_shorter_ones() -> None:
    with NearDevice.open("sw_emu:test?dram=1M&kernel=model") as device:
        short = job_over(stored(device)[0])
        want = device.attend([short])[0]
        with pytest.raises(OutOfDeviceMemory):
            device.attend([short] * 2000)
        np.testing.assert_array_equal(device.attend([short])[0].o, want.o)


def test_an_abandoned_list_leaves_the_card_free(device: NearDevice) -> None:
    job = job_over(stored(device)[0])
    want = device.attend([job])[0]
    device.abandon()
    device.submit([job])
    device.abandon()
    np.testing.assert_array_equal(device.attend([job])[0].o, want.o)


@pytest.mark.parametrize("reached", [False, True])
def test_an_interrupted_start_leaves_the_card_free(reached: bool) -> None:
    """Ctrl-C before START reached the card, and after."""
    card = _InterruptedStart(card_with(ModelKernel()))
    with NearDevice.open(cast(Transport, card)) as device:
        job = job_over(stored(device)[0])
        want = device.attend([job])[0]
        card.armed, card.reached = True, reached
        with pytest.raises(KeyboardInterrupt):
            device.submit([job])
        device.abandon()
        np.testing.assert_array_equal(device.attend([job])[0].o, want.o)


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


class _InterruptedStart:
    """A card where Ctrl-C arrives at the next START once `armed`."""

    def __init__(self, card: Transport) -> None:
        self._card = card
        self.armed = self.reached = False

    def write32(self, offset: int, value: int) -> None:
        interrupted = self.armed and offset == ADDR_CTRL and bool(value & CTRL_START)
        if not interrupted or self.reached:
            self._card.write32(offset, value)
        if interrupted:
            self.armed = False
            raise KeyboardInterrupt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._card, name)
