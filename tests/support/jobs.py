# SPDX-License-Identifier: Apache-2.0
"""Images of device memory that hold one job list, built from the register map alone.

Independent of the driver's encoder, so that the two check each other. `random_jobs` draws the jobs, `mutations` breaks
images; here nothing is random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import google_crc32c
import numpy as np
from nearkv_driver import regmap as rm
from nearkv_driver.layout import Layout
from nearkv_emulation.kernel import Kernel, Masters, Region
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
BASE = 0x40_0000_0000
POISON = 0xA5
PADDING = 0x7E01  # an FP16 NaN: what lies in padding must not matter


def ceil(n: int, multiple: int) -> int:
    return n + -n % multiple


def padded(head_size: int) -> int:
    return ceil(head_size, rm.LANE_PAD)


@dataclass(frozen=True)
class Segment:
    """Tokens from position `first` on, k and v FP16 [tokens, head_size]; `offset` within their first page."""

    first: int
    k: NDArray[np.float16]
    v: NDArray[np.float16]
    checked: bool = False
    offset: int = 0


@dataclass(frozen=True)
class Job:
    """What a job asks for. state_in: bytes of a state, or the index of an earlier job with `state_out`."""

    q: NDArray[np.float32]
    limits: Sequence[tuple[int, int]]
    scale: float
    segments: Sequence[Segment] = ()
    new: Segment | None = None
    tail: bool = False
    window: int = 0
    state_in: bytes | int | None = None
    state_out: bool = False
    output: bool = True
    raw: bool = False
    identify: bool = False

    @property
    def head_size(self) -> int:
        return int(self.q.shape[1])

    @property
    def rows(self) -> int:
        return len(self.q)

    @property
    def tokens(self) -> list[Segment]:
        """All segments, new rows last."""
        return [*self.segments, *([self.new] if self.new else [])]


IDENTIFY = Job(np.zeros((1, 64), np.float32), [(0, 0)], 1.0, identify=True)


def scale_fields(scale: float) -> tuple[int, int]:
    """(scale_mantissa, scale_exponent) of scale * log2(e)."""
    fraction, exponent = math.frexp(scale * math.log2(math.e))
    mantissa = round(fraction * 2**24)
    return (2**23, exponent + 1) if mantissa == 2**24 else (mantissa, exponent)


def state_nbytes(rows: int, head_size: int) -> int:
    return rows * 24 * padded(head_size) + ceil(32 * rows, 64)


def output_nbytes(rows: int, head_size: int) -> int:
    return rows * 4 * padded(head_size) + ceil(8 * rows, 64)


@dataclass(frozen=True)
class Image:
    """Memory from `base` on with a list in it. `placed` holds the descriptor of each job, by field."""

    memory: Bytes
    kv: int
    ctl: int
    out: int
    jobs: tuple[Job, ...]
    placed: tuple[dict[str, int], ...]
    base: int = BASE
    # Bytes [start, end) of the memory that a master (by index) cannot reach.
    holes: tuple[tuple[int, int, int], ...] = field(default=())

    def masters(self, memory: Bytes) -> Masters:
        kv, ctl, out = (self._regions(memory, index) for index in range(3))
        return Masters(kv, ctl, out)

    def _regions(self, memory: Bytes, master: int) -> list[Region]:
        edges = [0]
        for _, start, end in sorted(hole for hole in self.holes if hole[0] == master):
            edges += [start, end]
        edges.append(len(memory))
        pairs = zip(edges[::2], edges[1::2], strict=True)
        return [Region(self.base + a, memory[a:b]) for a, b in pairs if a < b]

    def run(self, kernel: Kernel) -> Bytes:
        """Memory after the kernel has processed the list; the image itself stays as it is."""
        memory = self.memory.copy()
        kernel.run(self.masters(memory), self.kv, self.ctl, self.out)
        return memory

    def at(self, address: int) -> int:
        """Index of an address in the memory."""
        return address - self.base

    def statuses(self, memory: Bytes) -> list[dict[str, int]]:
        start = self.at(self.out)
        blocks = memory[start : start + 64 * len(self.jobs)].reshape(-1, 64)
        return [rm.STATUS.unpack(block.tobytes()) for block in blocks]

    def output(self, memory: Bytes, job: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int32]]:
        """(O [rows, head_size], L, T) of a job without RAW."""
        spec, start = self.jobs[job], self.at(self.placed[job]["out_addr"])
        d_pad = padded(spec.head_size)
        data = memory[start : start + output_nbytes(spec.rows, spec.head_size)].copy()
        o = data[: spec.rows * d_pad * 4].view(np.float32).reshape(spec.rows, d_pad)[:, : spec.head_size]
        last = data[spec.rows * d_pad * 4 :].view(np.int32)[: 2 * spec.rows].reshape(-1, 2)
        return o, last[:, 0].copy().view(np.float32), last[:, 1]

    def state(self, memory: Bytes, job: int, name: str = "state_out") -> bytes:
        """The stored state of a job: `state_out`, or `out_addr` of a RAW job."""
        spec, start = self.jobs[job], self.at(self.placed[job][name])
        return memory[start : start + state_nbytes(spec.rows, spec.head_size)].tobytes()


class Arena:
    """Memory that grows from an address on."""

    def __init__(self, base: int) -> None:
        self.base = base
        self.data = bytearray()

    def put(self, data: bytes, align: int = 64, offset: int = 0) -> int:
        """Address of the data: a multiple of `align`, plus `offset`."""
        self.data += bytes(ceil(len(self.data), align) - len(self.data) + offset)
        address = self.base + len(self.data)
        self.data += data
        return address


def rows_bytes(rows: NDArray[np.float16] | NDArray[np.float32]) -> bytes:
    """Rows as stored, d_pad elements apart, with NaN in the padding."""
    wide = np.full((len(rows), padded(rows.shape[1])), np.nan, rows.dtype)
    if rows.dtype == np.float16:
        wide.view(np.uint16)[:] = PADDING
    wide[:, : rows.shape[1]] = rows
    return wide.tobytes()


def build(jobs: Sequence[Job], base: int = BASE, tight: bool = False) -> Image:
    """An image of the jobs. `tight`: windows hold what is used and no more, else the whole memory."""
    kv = Arena(base)
    addresses = [[_put_segment(kv, s) for s in job.segments] for job in jobs]
    kv.put(b"", rm.PAGE_BYTES)
    ctl = Arena(kv.base + max(len(kv.data), rm.PAGE_BYTES))
    kv.data += bytes(ctl.base - kv.base - len(kv.data))
    ctl_address = ctl.put(bytes(rm.LIST.nbytes + rm.JOB.nbytes * len(jobs)))
    placed = [_put_inputs(ctl, job, where) for job, where in zip(jobs, addresses, strict=True)]
    ctl.put(b"", rm.PAGE_BYTES)
    out = Arena(ctl.base + len(ctl.data))
    out_address = out.put(bytes([POISON] * rm.STATUS.nbytes * len(jobs)))
    for job, fields in zip(jobs, placed, strict=True):
        _put_outputs(out, job, fields)
    out.put(b"", rm.PAGE_BYTES)
    for job, fields in zip(jobs, placed, strict=True):
        if isinstance(job.state_in, int):
            fields["state_in"] = placed[job.state_in]["state_out"]

    whole = (base, out.base + len(out.data) - base)
    shared = any(isinstance(job.state_in, int) for job in jobs)
    ctl_nbytes = len(ctl.data) + (len(out.data) if shared else 0)
    windows = {"kv": (base, len(kv.data)), "ctl": (ctl.base, ctl_nbytes), "out": (out.base, len(out.data))}
    fields = {"magic": rm.LIST_MAGIC, "version": rm.CONTRACT_VERSION, "jobs": len(jobs)}
    for name, at in (("kv", base), ("ctl", ctl_address), ("out", out_address)):
        window, nbytes = windows[name] if tight else whole
        fields |= {f"{name}_base": at, f"{name}_window": window, f"{name}_window_nbytes": nbytes}
    packed = rm.LIST.pack(**fields) + b"".join(rm.JOB.pack(**job) for job in placed)
    ctl.data[: len(packed)] = packed
    # Outputs and the gaps between them start as poison: what a kernel writes beyond them shows.
    memory = np.frombuffer(bytes(kv.data) + bytes(ctl.data) + bytes([POISON] * len(out.data)), np.uint8).copy()
    return Image(memory, base, ctl_address, out_address, tuple(jobs), tuple(placed), base)


def _put_segment(kv: Arena, s: Segment) -> tuple[int, int]:
    if not s.checked:
        return kv.put(rows_bytes(s.k)), kv.put(rows_bytes(s.v))
    places = []
    for rows in (s.k, s.v):
        places.append(kv.put(rows_bytes(rows), rm.PAGE_BYTES, s.offset))
        kv.put(b"", rm.PAGE_BYTES)
    return places[0], places[1]


def page_crcs(memory: bytes, start: int, end: int) -> list[int]:
    """CRC-32C of every page that [start, end) touches; `start` and `end` are indices."""
    first = start - start % rm.PAGE_BYTES
    return [google_crc32c.value(memory[p : p + rm.PAGE_BYTES]) for p in range(first, end, rm.PAGE_BYTES)]


def _checksums(s: Segment) -> bytes:
    columns = []
    for rows in (s.k, s.v):
        data = bytes(s.offset) + rows_bytes(rows)
        columns.append(page_crcs(data + bytes(-len(data) % rm.PAGE_BYTES), 0, len(data)))
    return np.array(columns, np.uint32).T.tobytes()


def _put_inputs(ctl: Arena, job: Job, where: Sequence[tuple[int, int]]) -> dict[str, int]:
    if job.identify:
        return {"opcode": rm.Opcode.IDENTIFY}
    mantissa, exponent = scale_fields(job.scale)
    f = {"opcode": rm.Opcode.ATTEND, "flags": rm.JobFlag.RAW if job.raw else 0, "head_size": job.head_size}
    f |= {"rows": job.rows, "query_tokens": len(job.limits), "window": job.window, "segments": len(job.segments)}
    f |= {"scale_mantissa": mantissa, "scale_exponent": exponent}
    f["q_addr"] = ctl.put(rows_bytes(job.q))
    f["limits_addr"] = ctl.put(np.array(job.limits, np.uint32).tobytes())
    packed = []
    for s, (k_addr, v_addr) in zip(job.segments, where, strict=True):
        # Checksums of a segment need not start at a word: any multiple of 8 will do.
        crc_addr = ctl.put(_checksums(s), 8) if s.checked else 0
        fields = {"first_position": s.first, "k_addr": k_addr, "v_addr": v_addr, "crc_addr": crc_addr}
        packed.append(rm.SEGMENT.pack(tokens=len(s.k), **fields))
    if packed:
        f["segments_addr"] = ctl.put(b"".join(packed))
    if job.new:
        f |= {"new_tokens": len(job.new.k), "new_first": job.new.first}
        f["new_k_addr"], f["new_v_addr"] = ctl.put(rows_bytes(job.new.k)), ctl.put(rows_bytes(job.new.v))
    if isinstance(job.state_in, bytes):
        f["state_in"] = ctl.put(job.state_in)
    return f


def _put_outputs(out: Arena, job: Job, f: dict[str, int]) -> None:
    if job.identify:
        f["out_addr"] = out.put(bytes(rm.IDENTITY.nbytes))
        return
    if job.tail and job.new:
        f["tail_k_addr"], f["tail_v_addr"] = out.put(rows_bytes(job.new.k)), out.put(rows_bytes(job.new.v))
    state = bytes(state_nbytes(job.rows, job.head_size))
    if job.state_out:
        f["state_out"] = out.put(state)
    if job.output:
        f["out_addr"] = out.put(state if job.raw else bytes(output_nbytes(job.rows, job.head_size)))


def comparable(image: Image, memory: Bytes) -> Bytes:
    """Memory after a run without what may differ between implementations: cycles, and who they are."""
    memory = memory.copy()
    for job in range(len(image.jobs)):
        status = image.at(image.out) + rm.STATUS.nbytes * job
        _blank(memory, status, rm.STATUS, "cycles", 8)
        # What the list says, not what was asked for: a damaged list may put an identity elsewhere.
        descriptor = image.at(image.ctl) + rm.LIST.nbytes + rm.JOB.nbytes * job
        fields = rm.JOB.unpack(image.memory[descriptor : descriptor + rm.JOB.nbytes].tobytes())
        inside = 0 <= image.at(fields["out_addr"]) <= len(memory) - rm.IDENTITY.nbytes
        if fields["opcode"] == rm.Opcode.IDENTIFY and inside:
            for name in ("implementation", "build"):
                _blank(memory, image.at(fields["out_addr"]), rm.IDENTITY, name, 4)
    return memory


def _blank(memory: Bytes, start: int, layout: Layout, name: str, nbytes: int) -> None:
    at = start + layout.offset[name]
    memory[at : at + nbytes] = 0


def poke(image: Image, address: int, data: bytes) -> Image:
    """The image with other bytes at an address."""
    memory = image.memory.copy()
    memory[image.at(address) : image.at(address) + len(data)] = np.frombuffer(data, np.uint8)
    return replace(image, memory=memory)
