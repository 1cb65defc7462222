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
    EMPTY_T,
    HEAD_SIZES,
    IDENTITY,
    IDENTITY_MAGIC,
    LIST,
    NOT_APPLICABLE,
    REGMAP_HASH,
    STATE_T_LIMIT,
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
    """Finds what the kernel left unwritten: a whole word of poison, or an end that no output has.

    An output ends with (L, T) and zeros, which are written last. Poison is no L, no T and not zero.
    """
    begin = message.jobs[0].offset
    words = reply[begin:].view(np.uint64).reshape(-1, WORD_BYTES // 8)
    unwritten = (words[:, 0] == _POISON64) & (words == _POISON64).all(axis=1)
    if unwritten.any():
        _incomplete(message, begin + int(np.argmax(unwritten)) * WORD_BYTES, card)
    for i, e in enumerate(message.jobs):
        if e.output:
            end = message.jobs[i + 1].offset if i + 1 < len(message.jobs) else message.reply_nbytes
            split, size = _split(e)
            t = _raw_rest(reply, e)[:, BINS] if e.raw else _pairs(reply, e)[:, 1].view(np.int32)
            possible = (np.abs(t) < STATE_T_LIMIT) | (t == EMPTY_T)
            if not possible.all() or reply[split + size : end].any():
                _incomplete(message, split, card)


def _incomplete(message: Message, at: int, card: str) -> None:
    job = max(i for i, e in enumerate(message.jobs) if e.output and e.offset <= at)
    where = f"its output is unwritten at byte {at} of the reply"
    raise ReplyIncomplete(f"job {job} reports ok, but {where}", card=card, job=job)


def _output(reply: NDArray[np.uint8], e: Expected, saturated: bool, beats: int, cycles: int) -> AttendResult:
    rows = e.rows if e.output else 0
    o = reply[e.offset : e.offset + rows * e.d_pad * 4].view(np.float32).reshape(rows, e.d_pad)[:, : e.head_size]
    pairs = _pairs(reply, e)[:rows]
    return AttendResult(o, pairs[:, 0].view(np.float32), pairs[:, 1].view(np.int32), saturated, beats, cycles)


def _raw(reply: NDArray[np.uint8], e: Expected, saturated: bool, beats: int, cycles: int) -> RawResult:
    split, _ = _split(e)
    o = reply[e.offset : split].view(np.int64).reshape(e.rows, BINS, e.d_pad)[:, :, : e.head_size]
    rest = _raw_rest(reply, e)
    return RawResult(o, rest[:, :BINS], rest[:, BINS].astype(np.int32), saturated, beats, cycles)


def _split(e: Expected) -> tuple[int, int]:
    """Where O ends and L and T begin, and their bytes without padding; 0 bytes without output."""
    if not e.output:
        return e.offset, 0
    if e.raw:
        return e.offset + e.rows * BINS * e.d_pad * 8, e.rows * (BINS + 1) * 8
    return e.offset + e.rows * e.d_pad * 4, e.rows * 8


def _pairs(reply: NDArray[np.uint8], e: Expected) -> NDArray[np.uint32]:
    """(L, T) per row, as the words they travel in."""
    split, size = _split(e)
    return reply[split : split + size].view(np.uint32).reshape(-1, 2)


def _raw_rest(reply: NDArray[np.uint8], e: Expected) -> NDArray[np.int64]:
    """L in its bins, then T, per row."""
    split, size = _split(e)
    return reply[split : split + size].view(np.int64).reshape(-1, BINS + 1)


def _fields(status: np.void) -> Mapping[str, int]:
    return {f.name: int(status[f.name]) for f in STATUS.fields}


def _bits(mask: int) -> tuple[int, ...]:
    return tuple(i for i in range(32) if mask >> i & 1)
