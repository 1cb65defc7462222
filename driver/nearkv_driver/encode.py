# SPDX-License-Identifier: Apache-2.0
"""Turns jobs into the bytes that one kernel start reads. Touches no device.

Everything that the kernel would refuse in a descriptor is refused here, by job, field and value, and so are segments
that hold a position twice, which the kernel cannot see. Values of q, K, V and states are the kernel's to judge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from nearkv_driver.checks import NewRows, check_segments
from nearkv_driver.commands import AttendJob
from nearkv_driver.plan import Plan, Shape, plan
from nearkv_driver.regmap import (
    BINS,
    CONTRACT_VERSION,
    IDENTITY,
    JOB,
    LIST,
    LIST_MAGIC,
    POSITIONS_MAX,
    SEGMENT,
    STATUS,
    ElementFormat,
    JobFlag,
    Opcode,
)
from nearkv_driver.sizes import padded, state_nbytes
from nearkv_driver.windows import Windows

_MANTISSA_BITS = 24
_SCALE_EXPONENTS = (-126, 127)


@dataclass(frozen=True, slots=True)
class Expected:
    """What the reply holds for one job; its output begins at `offset` bytes."""

    rows: int
    head_size: int
    d_pad: int
    output: bool
    raw: bool
    offset: int


@dataclass(frozen=True, eq=False)
class Message:
    """One encoded list. Payload is what the link-traffic formula counts, overhead is everything else."""

    data: NDArray[np.uint8]
    jobs: tuple[Expected, ...]
    kv_base: int
    ctl_address: int
    out_address: int
    payload_nbytes: int
    reply_nbytes: int
    reply_payload_nbytes: int

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes)

    @property
    def overhead_nbytes(self) -> int:
        return self.nbytes - self.payload_nbytes

    @property
    def reply_overhead_nbytes(self) -> int:
        return self.reply_nbytes - self.reply_payload_nbytes


def encode(
    jobs: Sequence[AttendJob],
    *,
    kv_base: int,
    ctl_address: int,
    out_address: int,
    windows: Windows,
    planned: Plan | None = None,
) -> Message:
    """The message that lies at `ctl_address` and is answered at `out_address`; all addresses are device addresses.

    `planned` is what `plan(jobs)` gave, where the caller has it. Raises TypeError or ValueError that names job, field,
    value and limit.
    """
    p = plan(jobs) if planned is None else planned
    data = np.zeros(p.nbytes, np.uint8)
    data[: LIST.nbytes] = _header(len(jobs), kv_base, ctl_address, out_address, windows, p.nbytes, p.reply_nbytes)
    table = data[p.segments : p.q[0]].view(SEGMENT.dtype)
    descriptors: list[tuple[int, ...]] = []
    limits: list[int] = []
    segment = 0
    for i, (job, shape) in enumerate(zip(jobs, p.shapes, strict=True)):
        address = (ctl_address + p.limits + len(limits) * 4, ctl_address + p.segments + segment * SEGMENT.nbytes)
        descriptors.append(_descriptor(i, job, shape, p, address, ctl_address, out_address, windows))
        limits += _limits(i, job, shape)
        if shape.segments:
            table[segment : segment + shape.segments] = job.segments
            segment += shape.segments
    _place(data, p.q[0], [job.q for job in jobs])
    _place(data, p.new_k[0], [job.new_k for job in jobs if job.new_k is not None])
    _place(data, p.new_v[0], [job.new_v for job in jobs if job.new_v is not None])
    data[p.limits : p.segments].view(np.uint32)[:] = limits
    data[LIST.nbytes : p.limits].view(JOB.dtype)[:] = descriptors
    # Structured assignment may carry the padding of its source along; reserved bytes must be zero.
    table.view(np.uint8).reshape(-1, SEGMENT.nbytes)[:, SEGMENT.end :] = 0

    shapes = p.shapes
    new = [NewRows(job.new_first, s.new) for job, s in zip(jobs, shapes, strict=True)]
    check_segments(table, [s.segments for s in shapes], [s.d_pad for s in shapes], new, windows)
    expected = tuple(
        Expected(s.rows, s.d, s.d_pad, job.output, job.raw, at) for job, s, at in zip(jobs, shapes, p.out, strict=True)
    )
    # q of a job without an output comes again with the job that gives it: only that one is payload.
    payload = sum(bool(s.out_nbytes) * s.rows * s.d_pad * 4 + 2 * s.new * s.d_pad * 2 for s in shapes)
    reply_payload = sum(e.rows * _row_payload(e) for e in expected)
    return Message(data, expected, kv_base, ctl_address, out_address, payload, p.reply_nbytes, reply_payload)


def encode_identify(*, kv_base: int, ctl_address: int, out_address: int, windows: Windows) -> Message:
    """A list of one identify job, answered by its status and the identity block."""
    nbytes, reply_nbytes = LIST.nbytes + JOB.nbytes, STATUS.nbytes + IDENTITY.nbytes
    header = _header(1, kv_base, ctl_address, out_address, windows, nbytes, reply_nbytes)
    job = JOB.pack(opcode=Opcode.IDENTIFY, out_addr=out_address + STATUS.nbytes)
    data = np.concatenate((header, np.frombuffer(job, np.uint8)))
    return Message(data, (), kv_base, ctl_address, out_address, 0, reply_nbytes, 0)


def _header(
    jobs: int, kv_base: int, ctl_address: int, out_address: int, windows: Windows, nbytes: int, reply_nbytes: int
) -> NDArray[np.uint8]:
    windows.kv.check("kv_base", kv_base, 0)
    windows.ctl.check("the message", ctl_address, nbytes)
    windows.out.check("the reply", out_address, reply_nbytes)
    header = LIST.pack(
        magic=LIST_MAGIC,
        version=CONTRACT_VERSION,
        jobs=jobs,
        kv_base=kv_base,
        ctl_base=ctl_address,
        out_base=out_address,
        kv_window=windows.kv.base,
        kv_window_nbytes=windows.kv.nbytes,
        ctl_window=windows.ctl.base,
        ctl_window_nbytes=windows.ctl.nbytes,
        out_window=windows.out.base,
        out_window_nbytes=windows.out.nbytes,
    )
    return np.frombuffer(header, np.uint8)


def _limits(i: int, job: AttendJob, shape: Shape) -> list[int]:
    """The words of the limit structures, with zeros up to whole 64-byte words."""
    found = []
    for t, (first, limit) in enumerate(job.limits):
        if not (0 <= first <= POSITIONS_MAX and 0 <= limit <= POSITIONS_MAX):
            raise ValueError(f"job {i}: limits[{t}] = ({first}, {limit}); each is 0 to {POSITIONS_MAX}")
        found += [first, limit]
    return found + [0] * (shape.limits_nbytes // 4 - len(found))


def _descriptor(
    i: int,
    job: AttendJob,
    shape: Shape,
    p: Plan,
    addresses: tuple[int, int],
    ctl_address: int,
    out_address: int,
    windows: Windows,
) -> tuple[int, ...]:
    """Values of the job structure, in the order of its fields."""
    if not 0 <= job.window < POSITIONS_MAX:
        raise ValueError(f"job {i}: window = {job.window}; it is 0 (none) to {POSITIONS_MAX - 1}")
    if not 0 <= job.new_first <= POSITIONS_MAX:
        raise ValueError(f"job {i}: new_first = {job.new_first}; positions are 0 to {POSITIONS_MAX - 1}")
    mantissa, exponent = _scale(i, job.scale)
    size = state_nbytes(shape.rows, shape.d)
    if job.state_in:
        windows.ctl.check(f"job {i}: state_in", job.state_in, size)
    if job.state_out:
        windows.out.check(f"job {i}: state_out", job.state_out, size)
    if (job.tail_k_addr == 0) != (job.tail_v_addr == 0):
        raise ValueError(f"job {i}: tail_k_addr = {job.tail_k_addr:#x} and tail_v_addr = {job.tail_v_addr:#x}")
    if job.tail_k_addr:
        if not shape.new:
            raise ValueError(f"job {i}: tail_k_addr = {job.tail_k_addr:#x} without new rows")
        windows.out.check(f"job {i}: tail_k_addr", job.tail_k_addr, shape.new * shape.d_pad * 2)
        windows.out.check(f"job {i}: tail_v_addr", job.tail_v_addr, shape.new * shape.d_pad * 2)
    limits_address, segments_address = addresses
    return (
        Opcode.ATTEND,
        JobFlag.RAW if job.raw else 0,
        shape.d,
        ElementFormat.FP16,
        shape.rows,
        shape.query_tokens,
        mantissa,
        exponent,
        job.window,
        shape.segments,
        shape.new,
        job.new_first,
        ctl_address + p.q[i],
        limits_address,
        segments_address if shape.segments else 0,
        ctl_address + p.new_k[i] if shape.new else 0,
        ctl_address + p.new_v[i] if shape.new else 0,
        job.tail_k_addr,
        job.tail_v_addr,
        job.state_in,
        job.state_out,
        out_address + p.out[i] if job.output else 0,
    )


def _scale(i: int, scale: float) -> tuple[int, int]:
    try:
        return scale_constant(scale)
    except ValueError as error:
        raise ValueError(f"job {i}: {error}") from None


@lru_cache(maxsize=64)
def scale_constant(scale: float) -> tuple[int, int]:
    """(mantissa, exponent) with scale * log2(e) = mantissa * 2**(exponent - 24), mantissa in [2**23, 2**24)."""
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale = {scale}; it must be finite and above 0")
    fraction, exponent = math.frexp(scale * math.log2(math.e))
    mantissa = round(fraction * (1 << _MANTISSA_BITS))
    if mantissa == 1 << _MANTISSA_BITS:
        mantissa, exponent = mantissa >> 1, exponent + 1
    low, high = _SCALE_EXPONENTS
    if not low <= exponent <= high:
        raise ValueError(f"scale = {scale}; times log2(e) it must lie in [2**{low - 1}, 2**{high})")
    return mantissa, exponent


def _place(data: NDArray[np.uint8], offset: int, arrays: Sequence[NDArray[np.generic]]) -> None:
    """Puts the rows of all arrays one after the other, each padded with the zeros that are there."""
    for d, same in groupby(arrays, key=lambda array: int(array.shape[1])):
        group = list(same)
        rows, d_pad = sum(map(len, group)), padded(d)
        end = offset + rows * d_pad * group[0].itemsize
        place = data[offset:end].view(group[0].dtype).reshape(rows, d_pad)
        np.concatenate(group, out=place[:, :d])
        offset = end


def _row_payload(e: Expected) -> int:
    if not e.output:
        return 0
    return (BINS * e.d_pad + BINS + 1) * 8 if e.raw else e.d_pad * 4 + 8
