# SPDX-License-Identifier: Apache-2.0
"""Rules for segments and new rows, applied to all jobs of a list at once; the first bad field is named.

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
_PAGE, _IN_PAGE = _U(PAGE_BYTES), _U(PAGE_BYTES - 1)
_IN_WORD, _IN_CRC = _U(WORD_BYTES - 1), _U(PAGE_CRC.nbytes - 1)
# What sorts the positions of one job before those of the next.
_JOB_STEP = 2 * POSITIONS_MAX

_Bad = tuple[str, str, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class NewRows:
    """New rows of a job: they act as one more segment after its others; `tokens` 0 = none."""

    first: int
    tokens: int


def check_segments(
    table: SegmentTable, counts: Sequence[int], d_pads: Sequence[int], new: Sequence[NewRows], windows: Windows
) -> None:
    """`table` holds the segments of all jobs, `counts` how many each has. Raises ValueError."""
    begins = np.cumsum([0, *counts])[:-1]
    owner = np.repeat(np.arange(len(counts)), counts)
    first, tokens = table["first_position"].astype(np.int64), table["tokens"].astype(np.int64)
    end = first + tokens
    if len(table):
        # Where each job begins, nothing is before.
        before = np.concatenate(([-1], end[:-1]))
        before[begins[begins < len(table)]] = -1
        rules = _place_rules(first, tokens, end, before)
        rules += _address_rules(table, tokens * (2 * np.asarray(d_pads))[owner], windows)
        _refuse(table, rules, owner, begins)
    _check_new(new, counts, begins, end)
    _check_overlap(owner, begins, first, tokens, new)


def _place_rules(
    first: NDArray[np.int64], tokens: NDArray[np.int64], end: NDArray[np.int64], before: NDArray[np.int64]
) -> list[_Bad]:
    aligned = f"it must be a multiple of {TILE_TOKENS} or the end of the segment before"
    return [
        ("tokens", "a segment has at least 1", tokens < 1),
        ("first_position", aligned, (first & (TILE_TOKENS - 1) != 0) & (first != before)),
        ("first_position", f"its end passes {POSITIONS_MAX} positions", end > POSITIONS_MAX),
    ]


def _address_rules(table: SegmentTable, nbytes: NDArray[np.int64], windows: Windows) -> list[_Bad]:
    k, v, crc = (table[name].astype(_U) for name in ("k_addr", "v_addr", "crc_addr"))
    size = nbytes.astype(_U)
    rules: list[_Bad] = []
    for name, address in (("k_addr", k), ("v_addr", v)):
        rules.append((name, f"it must be a multiple of {WORD_BYTES}", (address & _IN_WORD) != 0))
        rules.append((name, f"it leaves the window of {windows.kv}", _outside(windows.kv, address, size)))
    if not crc.any():
        return rules
    checked, lead = crc != 0, k & _IN_PAGE
    pages = (lead + size + _IN_PAGE) // _PAGE
    whole = pages * _PAGE
    bad_pages = _outside(windows.kv, k - lead, whole) | _outside(windows.kv, v - lead, whole)
    listed = _outside(windows.ctl, crc, pages * _U(PAGE_CRC.nbytes))
    name = "crc_addr"
    return [
        *rules,
        (name, f"it must be a multiple of {PAGE_CRC.nbytes}", (crc & _IN_CRC) != 0),
        (
            name,
            f"k_addr and v_addr must agree modulo {PAGE_BYTES}",
            checked & ((k ^ v) & _IN_PAGE != 0),
        ),
        (name, f"its whole pages leave the window of {windows.kv}", checked & bad_pages),
        (name, f"its checksums leave the window of {windows.ctl}", checked & listed),
    ]


def _outside(window: Window, address: NDArray[np.uint64], nbytes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    # Below the window the difference wraps to a huge offset, which is outside too.
    offset, room = address - _U(window.base), _U(window.nbytes)
    outside: NDArray[np.bool_] = (offset > room) | (nbytes > room - offset)
    return outside


def _refuse(table: SegmentTable, rules: list[_Bad], owner: NDArray[np.int64], begins: NDArray[np.int64]) -> None:
    bad = np.logical_or.reduce([mask for _, _, mask in rules])
    if not bad.any():
        return
    at = int(np.argmax(bad))
    field, rule = next((field, rule) for field, rule, mask in rules if mask[at])
    job, value = int(owner[at]), int(table[field][at])
    text = f"{value:#x}" if field.endswith("_addr") else str(value)
    raise ValueError(f"job {job}: segment {at - int(begins[job])}: {field} = {text}; {rule}")


def _check_new(
    new: Sequence[NewRows], counts: Sequence[int], begins: NDArray[np.int64], end: NDArray[np.int64]
) -> None:
    for i, rows in enumerate(new):
        if not rows.tokens:
            if rows.first:
                raise ValueError(f"job {i}: new_first = {rows.first} without new rows; it must be 0")
            continue
        last = int(end[begins[i] + counts[i] - 1]) if counts[i] else -1
        if rows.first % TILE_TOKENS and rows.first != last:
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
    extra = [(i, rows.first, rows.tokens) for i, rows in enumerate(new) if rows.tokens]
    added = np.array(extra, np.int64).reshape(-1, 3)
    jobs = np.concatenate((owner, added[:, 0]))
    starts, lengths = np.concatenate((first, added[:, 1])), np.concatenate((tokens, added[:, 2]))
    keys = jobs * _JOB_STEP + starts
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    twice = keys[1:] < keys[:-1] + lengths[order[:-1]]
    if twice.any():
        one, other = order[np.argmax(twice) :][:2].tolist()
        job = int(jobs[one])
        names = [f"segment {p - int(begins[job])}" if p < len(owner) else "the new rows" for p in (one, other)]
        raise ValueError(f"job {job}: {names[0]} and {names[1]} both hold position {int(starts[other])}")
