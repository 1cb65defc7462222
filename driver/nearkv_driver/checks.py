# SPDX-License-Identifier: Apache-2.0
"""Rules for segments and new rows, applied to all jobs of a list at once. The first bad field is named.

The same rules in the same order as the kernel's (docs/kernel-contract.md), and one more: no position twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearkv_driver.commands import SegmentTable
from nearkv_driver.regmap import PAGE_BYTES, PAGE_CRC, POSITIONS_MAX, TILE_TOKENS, WORD_BYTES
from nearkv_driver.windows import Window, Windows

_U = np.uint64
_PAGE = _U(PAGE_BYTES)


@dataclass(frozen=True)
class NewRows:
    """New rows of a job: they act as one more segment after its others; `tokens` 0 = none."""

    first: int
    tokens: int


def check_segments(
    table: SegmentTable, counts: Sequence[int], d_pads: Sequence[int], new: Sequence[NewRows], windows: Windows
) -> None:
    """`table` holds the segments of all jobs, `counts` how many each has. Raises ValueError."""
    owner = np.repeat(np.arange(len(counts)), counts)
    begins = np.cumsum([0, *counts[:-1]])
    first, tokens = table["first_position"].astype(np.int64), table["tokens"].astype(np.int64)
    end = first + tokens
    if len(table):
        _Table(table, owner, begins, np.asarray(d_pads), first, tokens, end).check(windows)
    _check_new(new, counts, begins, end)
    _check_overlap(owner, begins, first, tokens, new)


@dataclass(frozen=True)
class _Table:
    table: SegmentTable
    owner: NDArray[np.int64]
    begins: NDArray[np.int64]
    d_pads: NDArray[np.int64]
    first: NDArray[np.int64]
    tokens: NDArray[np.int64]
    end: NDArray[np.int64]

    def check(self, windows: Windows) -> None:
        self._refuse(self.tokens < 1, "tokens", "a segment has at least 1")
        before = np.concatenate(([-1], self.end[:-1]))
        before[self.begins[self.begins < len(self.table)]] = -1
        loose = (self.first % TILE_TOKENS != 0) & (self.first != before)
        self._refuse(
            loose, "first_position", f"it must be a multiple of {TILE_TOKENS} or the end of the segment before"
        )
        self._refuse(self.end > POSITIONS_MAX, "first_position", f"its end passes {POSITIONS_MAX} positions")
        sizes = (self.tokens * self.d_pads[self.owner] * 2).astype(_U)
        k, v, crc = self.table["k_addr"], self.table["v_addr"], self.table["crc_addr"]
        for name, address in (("k_addr", k), ("v_addr", v)):
            self._refuse(address % _U(WORD_BYTES) != 0, name, f"it must be a multiple of {WORD_BYTES}")
            self._refuse(~_inside(windows.kv, address, sizes), name, _leaves(windows.kv))
        if not crc.any():
            return
        checked = crc != 0
        self._refuse(crc % _U(PAGE_CRC.nbytes) != 0, "crc_addr", f"it must be a multiple of {PAGE_CRC.nbytes}")
        apart = checked & ((k ^ v) % _PAGE != 0)
        self._refuse(apart, "crc_addr", f"k_addr and v_addr of a checked segment must agree modulo {PAGE_BYTES}")
        lead = k % _PAGE
        pages = (lead + sizes + _PAGE - _U(1)) // _PAGE
        for address in (k, v):
            whole = _inside(windows.kv, address - lead, pages * _PAGE)
            self._refuse(checked & ~whole, "crc_addr", f"its whole pages leave the window of m_axi_{windows.kv.name}")
        listed = _inside(windows.ctl, crc, pages * _U(PAGE_CRC.nbytes))
        self._refuse(checked & ~listed, "crc_addr", _leaves(windows.ctl))

    def _refuse(self, bad: NDArray[np.bool_], field: str, rule: str) -> None:
        if not bad.any():
            return
        at = int(np.argmax(bad))
        job = int(self.owner[at])
        value = int(self.table[field][at])
        text = f"{value:#x}" if field.endswith("_addr") else str(value)
        raise ValueError(f"job {job}: segment {at - int(self.begins[job])}: {field} = {text}; {rule}")


def _inside(window: Window, address: NDArray[np.uint64], nbytes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    # Below the window the difference wraps to a huge offset, which is outside too.
    room = _U(window.nbytes)
    inside: NDArray[np.bool_] = (nbytes <= room) & (address - _U(window.base) <= room - np.minimum(nbytes, room))
    return inside


def _leaves(window: Window) -> str:
    return f"it leaves the window of m_axi_{window.name}, {window.base:#x} to {window.base + window.nbytes:#x}"


def _check_new(
    new: Sequence[NewRows], counts: Sequence[int], begins: NDArray[np.int64], end: NDArray[np.int64]
) -> None:
    for i, rows in enumerate(new):
        if not rows.tokens:
            if rows.first:
                raise ValueError(f"job {i}: new_first = {rows.first} without new rows; it must be 0")
            continue
        last = int(end[begins[i] + counts[i] - 1]) if counts[i] else -1
        if rows.first < 0 or (rows.first % TILE_TOKENS and rows.first != last):
            raise ValueError(
                f"job {i}: new_first = {rows.first}; "
                f"it must be a multiple of {TILE_TOKENS} or the end of the last segment"
            )
        if rows.first + rows.tokens > POSITIONS_MAX:
            raise ValueError(f"job {i}: new_first = {rows.first} with {rows.tokens} rows passes {POSITIONS_MAX}")


def _check_overlap(
    owner: NDArray[np.int64],
    begins: NDArray[np.int64],
    first: NDArray[np.int64],
    tokens: NDArray[np.int64],
    new: Sequence[NewRows],
) -> None:
    extra = [i for i, rows in enumerate(new) if rows.tokens]
    jobs = np.concatenate((owner, np.array(extra, np.int64)))
    starts = np.concatenate((first, np.array([new[i].first for i in extra], np.int64)))
    lengths = np.concatenate((tokens, np.array([new[i].tokens for i in extra], np.int64)))
    keys = jobs * (2 * POSITIONS_MAX) + starts
    order = np.argsort(keys, kind="stable")
    keys, lengths = keys[order], lengths[order]
    twice = keys[1:] < keys[:-1] + lengths[:-1]
    if twice.any():
        pair = order[np.argmax(twice) :][:2]
        job = int(jobs[pair[0]])
        names = [
            f"segment {int(p) - int(begins[job])}" if p < len(owner) else "the new rows" for p in (pair[0], pair[1])
        ]
        position = int(starts[pair[1]])
        raise ValueError(f"job {job}: {names[0]} and {names[1]} both hold position {position}")
