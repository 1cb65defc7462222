# SPDX-License-Identifier: Apache-2.0
"""Turns the bytes of a reply into results, or into the error that says what went wrong. Touches no device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from nearkv_driver.commands import AttendResult, Identity, RawResult, Result
from nearkv_driver.encode import Expected, Message
from nearkv_driver.errors import BuildMismatch, JobError, ReplyIncomplete
from nearkv_driver.regmap import (
    BINS,
    CONTRACT_VERSION,
    HEAD_SIZES,
    IDENTITY,
    IDENTITY_MAGIC,
    LIST,
    NOT_APPLICABLE,
    REGMAP_HASH,
    STATUS,
    WORD_BYTES,
    Implementation,
    Status,
    StatusFlag,
)
from nearkv_driver.status_text import describe

POISON = 0xA5
_POISON32 = int.from_bytes(bytes([POISON]) * 4, "little")
_POISON64 = int.from_bytes(bytes([POISON]) * 8, "little")


def decode(message: Message, data: bytes, card: str = "") -> list[Result]:
    """Results in the order of the jobs; arrays are read-only views of `data`.

    Raises JobError for the first job that failed, ReplyIncomplete when the kernel left something unwritten.
    """
    reply = np.frombuffer(data, np.uint8)
    statuses = reply[: len(message.jobs) * STATUS.nbytes].view(STATUS.dtype)
    raise_for_status(statuses, card)
    _refuse_poison(reply, message, card)
    saturated = (statuses["flags"] & StatusFlag.SATURATED) != 0
    beats, cycles = statuses["beats"].tolist(), statuses["cycles"].tolist()
    return [
        (_raw if e.raw else _output)(reply, e, bool(saturated[i]), beats[i], cycles[i])
        for i, e in enumerate(message.jobs)
    ]


def progress(data: bytes, jobs: int) -> tuple[str, ...]:
    """What the status block of each job says so far, as text."""
    statuses = np.frombuffer(data, np.uint8)[: jobs * STATUS.nbytes].view(STATUS.dtype)
    return tuple(
        f"job {i}: not ended" if s["code"] == _POISON32 else f"job {i}: {describe(_fields(s))}"
        for i, s in enumerate(statuses)
    )


def decode_identity(data: bytes, card: str = "") -> Identity:
    """The identity block of a reply; raises BuildMismatch, naming both values, unless this driver speaks to it."""
    statuses = np.frombuffer(data, np.uint8)[: STATUS.nbytes].view(STATUS.dtype)
    version_offset = LIST.offset["version"]
    if statuses["code"][0] == Status.BAD_LIST and statuses["detail"][0] == version_offset:
        raise BuildMismatch("contract version", card=card, wanted=CONTRACT_VERSION, found="another, it refuses ours")
    raise_for_status(statuses, card)
    found = IDENTITY.unpack(data[STATUS.nbytes :])
    for what, name, wanted, form in (
        ("identity magic", "magic", IDENTITY_MAGIC, "{:#010x}"),
        ("contract version", "version", CONTRACT_VERSION, "{}"),
        ("contract hash (regmap_hash)", "regmap_hash", REGMAP_HASH, "{:#010x}"),
    ):
        if found[name] != wanted:
            raise BuildMismatch(what, card=card, wanted=form.format(wanted), found=form.format(found[name]))
    if found["implementation"] not in set(Implementation):
        known = ", ".join(f"{i.value} ({i.name.lower()})" for i in Implementation)
        raise BuildMismatch("implementation", card=card, wanted=f"one of {known}", found=found["implementation"])
    return Identity(
        version=found["version"],
        regmap_hash=found["regmap_hash"],
        implementation=Implementation(found["implementation"]),
        lanes=found["lanes"],
        rows_max=found["rows_max"],
        head_sizes=tuple(d for i, d in enumerate(HEAD_SIZES) if found["head_sizes"] >> i & 1),
        element_formats=_bits(found["element_formats"]),
        opcodes=_bits(found["opcodes"]),
        block_tokens=found["block_tokens"],
        tile_tokens=found["tile_tokens"],
        build=found["build"],
    )


def raise_for_status(statuses: NDArray[np.void], card: str = "") -> None:
    """Raises JobError or ReplyIncomplete unless every job is ok and says so in its own place."""
    codes = statuses["code"]
    if bool((codes == Status.OK).all()) and bool((statuses["job"] == np.arange(len(statuses))).all()):
        return
    for i, (code, job) in enumerate(zip(codes.tolist(), statuses["job"].tolist(), strict=True)):
        if code == _POISON32:
            raise ReplyIncomplete(f"the list has ended, but job {i} of {len(statuses)} has no status", card=card, job=i)
        if code == Status.OK and job == i:
            continue
        fields = _fields(statuses[i])
        name = Status(code).name.lower() if code in set(Status) else "unknown"
        about = "list refused" if job == NOT_APPLICABLE else f"job {i} of {len(statuses)}"
        raise JobError(f"{about}: {describe(fields)}", card=card, code=name, job=i, status=fields)


def _refuse_poison(reply: NDArray[np.uint8], message: Message, card: str) -> None:
    """The last words of an output hold (L, T), where poison cannot be a value; elsewhere a whole word of it is one."""
    begin = message.jobs[0].offset
    words = reply[begin:].view(np.uint64).reshape(-1, WORD_BYTES // 8)
    unwritten = (words[:, 0] == _POISON64) & (words == _POISON64).all(axis=1)
    if unwritten.any():
        at = begin + int(np.argmax(unwritten)) * WORD_BYTES
        _incomplete(message, at, card)
    for e in message.jobs:
        if e.output and not e.raw:
            at = e.offset + e.rows * e.d_pad * 4
            pairs = reply[at : at + e.rows * 8].view(np.uint32)
            if (pairs == _POISON32).any():
                _incomplete(message, at, card)


def _incomplete(message: Message, at: int, card: str) -> None:
    job = max(i for i, e in enumerate(message.jobs) if e.output and e.offset <= at)
    where = f"its output is unwritten at byte {at} of the reply"
    raise ReplyIncomplete(f"job {job} reports ok, but {where}", card=card, job=job)


def _output(reply: NDArray[np.uint8], e: Expected, saturated: bool, beats: int, cycles: int) -> AttendResult:
    rows = e.rows if e.output else 0
    split = e.offset + rows * e.d_pad * 4
    o = reply[e.offset : split].view(np.float32).reshape(rows, e.d_pad)[:, : e.head_size]
    pairs = reply[split : split + rows * 8].reshape(rows, 8)
    l, t = pairs[:, :4].view(np.float32)[:, 0], pairs[:, 4:].view(np.int32)[:, 0]  # noqa: E741
    return AttendResult(o, l, t, saturated, beats, cycles)


def _raw(reply: NDArray[np.uint8], e: Expected, saturated: bool, beats: int, cycles: int) -> RawResult:
    split = e.offset + e.rows * BINS * e.d_pad * 8
    o = reply[e.offset : split].view(np.int64).reshape(e.rows, BINS, e.d_pad)[:, :, : e.head_size]
    rest = reply[split : split + e.rows * (BINS + 1) * 8].view(np.int64).reshape(e.rows, BINS + 1)
    return RawResult(o, rest[:, :BINS], rest[:, BINS].astype(np.int32), saturated, beats, cycles)


def _fields(status: np.void) -> Mapping[str, int]:
    return {f.name: int(status[f.name]) for f in STATUS.fields}


def _bits(mask: int) -> tuple[int, ...]:
    return tuple(i for i in range(32) if mask >> i & 1)
