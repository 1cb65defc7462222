# SPDX-License-Identifier: Apache-2.0
"""Checks of the list header and of each job's fields, in the order of docs/kernel-contract.md.

Each check is a pair (offset, holds); the first that does not hold names the refused field. Later checks may rely on
earlier ones. Structures that a job points to are checked in `model_descriptors`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nearkv_driver.regmap import (
    CONTRACT_VERSION,
    HEAD_SIZES,
    JOB,
    JOBS_MAX,
    LANE_PAD,
    LIMIT,
    LIST,
    LIST_MAGIC,
    NEW_TOKENS_MAX,
    POSITIONS_MAX,
    QUERY_TOKENS_MAX,
    ROWS_MAX,
    SEGMENT,
    SEGMENTS_MAX,
    STATUS,
    WORD_BYTES,
    ElementFormat,
    JobFlag,
    Opcode,
    Status,
)

from nearkv_emulation.model_memory import Fault
from nearkv_emulation.model_state import output_nbytes, state_nbytes

Checks = Iterator[tuple[int, bool]]
Fields = dict[str, int]


@dataclass(frozen=True)
class Window:
    """The addresses that one master may touch: `nbytes` from `base` on."""

    base: int
    nbytes: int

    def holds(self, address: int, nbytes: int) -> bool:
        return self.base <= address and address + nbytes <= self.base + self.nbytes


@dataclass(frozen=True)
class Windows:
    """One window per master."""

    kv: Window
    ctl: Window
    out: Window


def padded(head_size: int) -> int:
    """d_pad: elements from one stored row to the next."""
    return -(-head_size // LANE_PAD) * LANE_PAD


def refuse_first(code: Status, checks: Checks, *, position: int | None = None, segment: int | None = None) -> None:
    """Raises Fault at the first check that does not hold."""
    for offset, holds in checks:
        if not holds:
            places = {"position": position, "segment": segment}
            raise Fault(code, detail=offset, **{name: at for name, at in places.items() if at is not None})


def reserved(raw: bytes, start: int, stop: int) -> Checks:
    """The u32 words of `raw` in [start, stop), which no field names, are zero."""
    for offset in range(start, stop, 4):
        yield offset, raw[offset : offset + 4] == b"\0\0\0\0"


def check_header(raw: bytes, kv: int, ctl: int, out: int) -> tuple[int, Windows]:
    """The number of jobs and the windows of a list header; kv, ctl, out are the registers. Raises Fault (bad_list)."""
    header = LIST.unpack(raw)
    refuse_first(Status.BAD_LIST, _header(raw, header, {"kv": kv, "ctl": ctl, "out": out}))
    kv_window, ctl_window, out_window = (
        Window(header[f"{name}_window"], header[f"{name}_window_nbytes"]) for name in ("kv", "ctl", "out")
    )
    return header["jobs"], Windows(kv_window, ctl_window, out_window)


def _header(raw: bytes, header: Fields, registers: Fields) -> Checks:
    at = LIST.offset
    yield at["magic"], header["magic"] == LIST_MAGIC
    yield at["version"], header["version"] == CONTRACT_VERSION
    yield at["jobs"], 1 <= header["jobs"] <= JOBS_MAX
    yield from reserved(raw, at["jobs"] + 4, at["kv_base"])
    for name, register in registers.items():
        yield at[f"{name}_base"], register == header[f"{name}_base"] and register % WORD_BYTES == 0
    used = {"kv": 0, "ctl": LIST.nbytes + JOB.nbytes * header["jobs"], "out": STATUS.nbytes * header["jobs"]}
    for name, register in registers.items():
        base, size = f"{name}_window", f"{name}_window_nbytes"
        window = Window(header[base], header[size])
        yield at[base], window.base % WORD_BYTES == 0
        yield at[size], 0 < window.nbytes <= 2**64 - window.base and window.nbytes % WORD_BYTES == 0
        yield at[base], window.holds(register, 1)
        yield at[size], window.holds(register, used[name])
    yield from reserved(raw, at["out_window_nbytes"] + 8, LIST.nbytes)


def check_job(raw: bytes, windows: Windows) -> Fields:
    """The fields of a job. Raises Fault (bad_job). `new_first` with new rows needs the segments and is not judged."""
    job = JOB.unpack(raw)
    refuse_first(Status.BAD_JOB, _opcode(job))
    identify = job["opcode"] == Opcode.IDENTIFY
    refuse_first(Status.BAD_JOB, _identify(raw, job, windows) if identify else _attend(raw, job, windows))
    return job


def _opcode(job: Fields) -> Checks:
    yield JOB.offset["opcode"], job["opcode"] in tuple(Opcode)


def _placed(address: int, nbytes: int, window: Window) -> bool:
    return address != 0 and address % WORD_BYTES == 0 and window.holds(address, nbytes)


def _identify(raw: bytes, job: Fields, windows: Windows) -> Checks:
    for name, offset in JOB.offset.items():
        if name == "out_addr":
            yield offset, _placed(job[name], WORD_BYTES, windows.out)
        elif name != "opcode":
            yield offset, job[name] == 0
    yield from _after_fields(raw)


def _after_fields(raw: bytes) -> Checks:
    yield from reserved(raw, JOB.offset["out_addr"] + 8, JOB.nbytes)


def _attend(raw: bytes, job: Fields, windows: Windows) -> Checks:
    at = JOB.offset
    yield at["flags"], job["flags"] & ~int(JobFlag.RAW) == 0
    yield at["head_size"], job["head_size"] in HEAD_SIZES
    yield at["element_format"], job["element_format"] == ElementFormat.FP16
    yield at["rows"], 1 <= job["rows"] <= ROWS_MAX
    yield at["query_tokens"], 1 <= job["query_tokens"] <= QUERY_TOKENS_MAX and job["rows"] % job["query_tokens"] == 0
    yield at["scale_mantissa"], 2**23 <= job["scale_mantissa"] < 2**24
    yield at["scale_exponent"], -126 <= job["scale_exponent"] <= 127
    yield at["window"], job["window"] < POSITIONS_MAX
    yield at["segments"], job["segments"] <= SEGMENTS_MAX
    yield at["new_tokens"], job["new_tokens"] <= NEW_TOKENS_MAX
    yield at["new_first"], job["new_tokens"] > 0 or job["new_first"] == 0

    def needed(name: str, nbytes: int, window: Window, where: bool = True) -> tuple[int, bool]:
        """The address is there exactly `where` it is needed, and lies in its window."""
        return at[name], _placed(job[name], nbytes, window) if where else job[name] == 0

    def optional(name: str, nbytes: int, window: Window) -> tuple[int, bool]:
        return at[name], job[name] == 0 or _placed(job[name], nbytes, window)

    rows, d_pad = job["rows"], padded(job["head_size"])
    yield needed("q_addr", rows * d_pad * 4, windows.ctl)
    yield needed("limits_addr", job["query_tokens"] * LIMIT.nbytes, windows.ctl)
    yield needed("segments_addr", job["segments"] * SEGMENT.nbytes, windows.ctl, job["segments"] > 0)
    new_nbytes = job["new_tokens"] * d_pad * 2
    yield needed("new_k_addr", new_nbytes, windows.ctl, job["new_tokens"] > 0)
    yield needed("new_v_addr", new_nbytes, windows.ctl, job["new_tokens"] > 0)
    has_tail = job["new_tokens"] > 0 and job["tail_k_addr"] != 0
    yield needed("tail_k_addr", new_nbytes, windows.out, has_tail)
    yield needed("tail_v_addr", new_nbytes, windows.out, has_tail)
    yield optional("state_in", state_nbytes(rows, d_pad), windows.ctl)
    yield optional("state_out", state_nbytes(rows, d_pad), windows.out)
    raw_output = job["flags"] & JobFlag.RAW != 0
    yield optional("out_addr", (state_nbytes if raw_output else output_nbytes)(rows, d_pad), windows.out)
    yield from _after_fields(raw)
