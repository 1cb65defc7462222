# SPDX-License-Identifier: Apache-2.0
"""Says in words what a status block reports. Raises nothing and knows no device."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nearkv_driver.layout import Layout
from nearkv_driver.regmap import (
    JOB,
    LIMIT,
    LIST,
    MASTER_CTL,
    MASTER_KV,
    MASTER_OUT,
    NOT_APPLICABLE,
    SEGMENT,
    Kind,
    Status,
)

_MASTERS = {MASTER_KV: "m_axi_kv", MASTER_CTL: "m_axi_ctl", MASTER_OUT: "m_axi_out"}
_KINDS = {Kind.K: "K", Kind.V: "V", Kind.Q: "q", Kind.STATE: "state"}


def describe(status: Mapping[str, int]) -> str:
    """One line: the code's name and what it speaks of. `status` holds every field of a status block."""
    code = status["code"]
    if code not in set(Status):
        return f"unknown status code {code:#x}"
    name = Status(code).name.lower()
    detail = _DETAILS.get(Status(code))
    return f"{name}: {detail(status)}" if detail else name


def field_at(layout: Layout, offset: int) -> str:
    """Name of the field at a byte offset of a structure."""
    for field in layout.fields:
        if field.offset == offset:
            return f"{layout.name}.{field.name}"
    return f"reserved word of {layout.name} at byte {offset}"


def _kind(status: Mapping[str, int]) -> str:
    return _KINDS[Kind(status["kind"])] if status["kind"] in set(Kind) else f"kind {status['kind']}"


def _segment(status: Mapping[str, int]) -> str:
    return "no segment" if status["segment"] == NOT_APPLICABLE else f"segment {status['segment']}"


def _axi(verb: str, status: Mapping[str, int]) -> str:
    master = _MASTERS.get(status["detail"], f"master {status['detail']}")
    return f"{verb} on {master} at {status['address']:#x} was answered with an error"


_DETAILS: dict[Status, Callable[[Mapping[str, int]], str]] = {
    Status.NOT_RUN: lambda s: "an earlier job failed",
    Status.BAD_LIST: lambda s: f"{field_at(LIST, s['detail'])} is refused",
    Status.BAD_JOB: lambda s: f"{field_at(JOB, s['detail'])} is refused",
    Status.BAD_LIMIT: lambda s: f"{field_at(LIMIT, s['detail'])} of query token {s['position']} is refused",
    Status.BAD_SEGMENT: lambda s: f"{field_at(SEGMENT, s['detail'])} of {_segment(s)} is refused",
    Status.CRC_MISMATCH: lambda s: f"page {s['page']} of {_kind(s)} in {_segment(s)} differs from its checksum",
    Status.NONFINITE_KV: lambda s: f"Inf or NaN in {_kind(s)} at position {s['position']}, {_segment(s)}",
    Status.NONFINITE_Q: lambda s: f"Inf or NaN in q, row {s['position']}",
    Status.BAD_STATE: lambda s: f"state_in is no state, row {s['position']}",
    Status.AXI_READ: lambda s: _axi("a read", s),
    Status.AXI_WRITE: lambda s: _axi("a write", s),
}
