# SPDX-License-Identifier: Apache-2.0
"""Which bytes of an image the contract gives a meaning, and memories with unknown bytes as files of a simulator.

Everything else may hold anything: `tests/rtl/test_unknown.py` makes it unknown.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from nearkv_driver import regmap as rm
from numpy.typing import NDArray

from tests.support.jobs import Bytes, Image, Job, Segment, output_nbytes, padded, state_nbytes

Mask = NDArray[np.bool_]


def meant(image: Image) -> Mask:
    """Bytes that a kernel may depend on: descriptors, rows without padding, whole checked pages, states."""
    known = np.zeros(len(image.memory), bool)
    at = image.at(image.ctl)
    known[at : at + rm.LIST.nbytes + rm.JOB.nbytes * len(image.jobs)] = True
    for job, fields in zip(image.jobs, image.placed, strict=True):
        if not job.identify:
            _job(image, known, job, fields)
    return known


def _job(image: Image, known: Mask, job: Job, fields: dict[str, int]) -> None:
    d_pad = padded(job.head_size)
    rows(known, image.at(fields["q_addr"]), job.rows, d_pad * 4, job.head_size * 4)
    mark(known, image.at(fields["limits_addr"]), len(job.limits) * rm.LIMIT.nbytes)
    for index, segment in enumerate(job.segments):
        start = image.at(fields["segments_addr"]) + rm.SEGMENT.nbytes * index
        mark(known, start, rm.SEGMENT.nbytes)
        _segment(image, known, segment, job.head_size, rm.SEGMENT.unpack(image.memory[start:][:64].tobytes()))
    if job.new:
        for name in ("new_k_addr", "new_v_addr"):
            # A tail copy takes rows with their padding.
            used = d_pad if job.tail else job.head_size
            rows(known, image.at(fields[name]), len(job.new.k), d_pad * 2, used * 2)
    if isinstance(job.state_in, bytes):
        start = image.at(fields["state_in"])
        rows(known, start, job.rows * 3, d_pad * 8, job.head_size * 8)
        mark(known, start + job.rows * d_pad * 24, 32 * job.rows)


def _segment(image: Image, known: Mask, segment: Segment, head_size: int, fields: dict[str, int]) -> None:
    nbytes = len(segment.k) * padded(head_size) * 2
    pages = -(-(segment.offset + nbytes) // rm.PAGE_BYTES)
    for name in ("k_addr", "v_addr"):
        start = image.at(fields[name])
        if segment.checked:
            mark(known, start - segment.offset, pages * rm.PAGE_BYTES)
        else:
            rows(known, start, len(segment.k), padded(head_size) * 2, head_size * 2)
    if segment.checked:
        mark(known, image.at(fields["crc_addr"]), 8 * pages)


def mark(known: Mask, start: int, nbytes: int) -> None:
    known[start : start + nbytes] = True


def rows(known: Mask, start: int, count: int, step: int, nbytes: int) -> None:
    for i in range(count):
        mark(known, start + i * step, nbytes)


def written(image: Image, after: Bytes) -> Mask:
    """Bytes that a kernel must write when `after` is right: statuses, and what sound jobs leave."""
    found = np.zeros(len(image.memory), bool)
    for i, (job, fields, status) in enumerate(zip(image.jobs, image.placed, image.statuses(after), strict=True)):
        at = image.at(image.out) + rm.STATUS.nbytes * i
        # A list that is refused as a whole has one status.
        if (after[at : at + rm.STATUS.nbytes] == image.memory[at : at + rm.STATUS.nbytes]).all():
            break
        mark(found, at, rm.STATUS.nbytes)
        if status["code"] != rm.Status.OK:
            continue
        state, tail = state_nbytes(job.rows, job.head_size), 0
        if job.new:
            tail = len(job.new.k) * padded(job.head_size) * 2
        out = rm.IDENTITY.nbytes if job.identify else state if job.raw else output_nbytes(job.rows, job.head_size)
        for name, nbytes in {"out_addr": out, "state_out": state, "tail_k_addr": tail, "tail_v_addr": tail}.items():
            if name in fields:
                mark(found, image.at(fields[name]), nbytes)
    return found


def save(path: Path, memory: Bytes, known: Mask) -> None:
    """A file for $readmemh: words of 64 bytes, highest first; unknown bytes are x."""
    digits = np.array([f"{byte:02x}" for byte in range(256)] + ["xx"])
    text = digits[np.where(known, memory.astype(np.int64), 256)].reshape(-1, rm.WORD_BYTES)[:, ::-1]
    path.write_text("\n".join("".join(word) for word in text) + "\n")


def load(path: Path, nbytes: int) -> tuple[Bytes, Mask]:
    """What $writememh wrote: bytes, and which of them are known."""
    words = [line for line in path.read_text().splitlines() if line and not line.startswith("//")]
    text = "".join("".join(word[i : i + 2] for i in range(2 * rm.WORD_BYTES - 2, -1, -2)) for word in words)
    pairs = [text[i : i + 2] for i in range(0, 2 * nbytes, 2)]
    known = np.array([pair.isalnum() and not set(pair) & set("xXzZ") for pair in pairs])
    return np.array([int(p, 16) if k else 0 for p, k in zip(pairs, known, strict=True)], np.uint8), known
