# SPDX-License-Identifier: Apache-2.0
"""One attend call: jobs for every (sequence, KV head) pair, all cards at once, results put together. Stores nothing.

Cards work at the same time: every list is submitted before the first is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from nearkv_driver.commands import AttendJob, AttendResult
from nearkv_driver.device import NearDevice
from nearkv_driver.errors import JobError
from nearkv_driver.regmap import EMPTY_T, JOBS_MAX
from numpy.typing import NDArray

from nearkv.layout import ModelLayout
from nearkv.merge import outputs
from nearkv.sequence import SequenceState

Halves = NDArray[np.float16]


@dataclass(frozen=True, eq=False)
class Query:
    """One sequence of a call. q [kv_heads, tokens, group, head_size]; k and v [kv_heads, tokens, head_size] are its new
    rows, already in the write buffer but not live, or None. `index` is its place in the batch, `picks` the query tokens
    that count (None = all)."""

    state: SequenceState
    index: int
    picks: NDArray[np.intp] | None
    q: NDArray[np.float32]
    k: Halves | None
    v: Halves | None

    @property
    def tokens(self) -> int:
        return int(self.q.shape[1])


@dataclass(frozen=True, eq=False)
class _Entry:
    query: Query
    head: int
    job: AttendJob


def attend(
    layer: int,
    queries: Sequence[Query],
    shape: tuple[int, int],
    devices: Sequence[NearDevice],
    layout: ModelLayout,
    *,
    scale: float,
    window: int,
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """(out [batch, query_heads, n, head_size], lse [batch, query_heads, n]) for `shape` = (batch, n)."""
    lists: list[list[_Entry]] = [[] for _ in devices]
    for query in queries:
        _add_jobs(lists, layer, query, layout, scale, window)
    batch, n = shape
    rows = (batch, layout.kv_heads, n, layout.group)
    o = np.zeros((*rows, layout.head_size), np.float32)
    l = np.zeros(rows, np.float32)  # noqa: E741  the name that the arithmetic gives it
    t = np.full(rows, EMPTY_T, np.int32)
    for start in range(0, max(map(len, lists), default=0), JOBS_MAX):
        part = [entries[start : start + JOBS_MAX] for entries in lists]
        for entries, results in zip(part, _run(layer, part, devices), strict=True):
            for entry, result in zip(entries, results, strict=True):
                query = entry.query
                at = (query.index, entry.head, slice(None) if query.picks is None else query.picks)
                grid = (query.tokens, layout.group)
                o[at] = result.o.reshape(*grid, -1)
                l[at] = result.l.reshape(grid)
                t[at] = result.t.reshape(grid)
    out, lse = outputs(o, l, t)
    heads = (batch, layout.query_heads, n)
    return (
        out.transpose(0, 1, 3, 2, 4).reshape(*heads, layout.head_size),
        lse.transpose(0, 1, 3, 2).reshape(heads),
    )


def _add_jobs(
    lists: list[list[_Entry]], layer: int, query: Query, layout: ModelLayout, scale: float, window: int
) -> None:
    tail = query.state.tail
    stored, end, count = tail.stored[layer], tail.end[layer], query.tokens
    fresh = query.k is not None
    limits = tuple((0, end + 1 + i) for i in range(count)) if fresh else ((0, end),) * count
    if not count or not limits[-1][1]:
        return
    # Extents that lie before the window of every query token are not read at all.
    skip = max(0, limits[0][1] - window) // layout.extent_tokens if window else 0
    skip = min(skip, stored // layout.extent_tokens)
    row = tail.row(layer, stored)
    new_row = tail.row(layer, end)
    for part in query.state.parts:
        table = part.data.table
        segments = table.segments(layer, skip, end - stored, row)
        for i, head in enumerate(part.data.heads):
            k_address, v_address = table.tail_addresses(layer, i, new_row) if fresh else (0, 0)
            job = AttendJob(
                head_size=layout.head_size,
                q=query.q[head].reshape(count * layout.group, layout.head_size),
                limits=limits,
                scale=scale,
                window=window,
                segments=segments[i],
                new_k=None if query.k is None else query.k[head],
                new_v=None if query.v is None else query.v[head],
                new_first=end if fresh else 0,
                tail_k_addr=k_address,
                tail_v_addr=v_address,
            )
            lists[part.number].append(_Entry(query, head, job))


def _run(layer: int, lists: Sequence[Sequence[_Entry]], devices: Sequence[NearDevice]) -> list[list[AttendResult]]:
    """Results per card. Every list that was started is waited for, also when another one failed or Ctrl-C came."""
    try:
        return _run_all(layer, lists, devices)
    except BaseException:
        for device in devices:
            device.abandon()
        raise


def _run_all(layer: int, lists: Sequence[Sequence[_Entry]], devices: Sequence[NearDevice]) -> list[list[AttendResult]]:
    errors: list[Exception] = []
    tickets = []
    for entries, device in zip(lists, devices, strict=True):
        try:
            tickets.append(device.submit([e.job for e in entries]) if entries and not errors else None)
        except Exception as error:
            errors.append(error)
            tickets.append(None)
    results: list[list[AttendResult]] = []
    for entries, device, ticket in zip(lists, devices, tickets, strict=True):
        got: list[AttendResult] = []
        if ticket is not None:
            try:
                got = [r for r in device.wait(ticket) if isinstance(r, AttendResult)]
            except JobError as error:
                if error.job < len(entries):
                    entry = entries[error.job]
                    where = f"layer {layer}, sequence {entry.query.state.id}, KV head {entry.head}"
                    error.add_note(f"job {error.job} is {where}")
                errors.append(error)
            except Exception as error:
                errors.append(error)
        results.append(got)
    if errors:
        for other in errors[1:]:
            errors[0].add_note(f"also: {other}")
        raise errors[0]
    return results
