# SPDX-License-Identifier: Apache-2.0
"""The kernel's view of one sequence on one card: segment descriptors, kept ready between calls. Reads no memory.

One row per extent group that the card has and, behind them, one for the tail. A step changes the tail's token count
only; the rest is rewritten when units are spilled, cropped or loaded. Groups that are not in card memory have no
address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from nearkv_driver.commands import SegmentTable as Segments
from nearkv_driver.regmap import PAGE_BYTES, SEGMENT
from numpy.typing import NDArray

from nearkv.extents import ExtentRun
from nearkv.layout import ModelLayout


class Stored(Protocol):
    """An extent group: it holds the tokens of an extent from position `first` on, and may have card memory."""

    @property
    def first(self) -> int: ...

    @property
    def run(self) -> ExtentRun | None: ...


class SegmentTable:
    """Segments of each layer and head; `tail_address` is where the card-side tail of the sequence begins (0 = none)."""

    def __init__(self, layout: ModelLayout, heads: int, tail_address: int, slot_rows: int) -> None:
        self._layout, self._heads = layout, heads
        index = np.arange(layout.layers * heads, dtype=np.uint64).reshape(layout.layers, heads)
        self._half = np.uint64(layout.extent_nbytes // 2)
        self._extent_offset = index * np.uint64(layout.extent_nbytes)
        self._crc_offset = index * np.uint64(layout.extent_pages * 8)
        self._tail_half = np.uint64(slot_rows * layout.row_nbytes)
        self._tail = np.uint64(tail_address) + index * np.uint64(2) * self._tail_half
        self._count = [0] * layout.layers
        self._stored = [0] * layout.layers
        self._table = np.zeros((layout.layers, heads, 4), SEGMENT.dtype)
        self._resident: NDArray[np.bool_] = np.zeros(4, np.bool_)

    @property
    def stored(self) -> int:
        """Tokens that every layer has in extent groups."""
        return min(self._stored)

    def copy_stored(self, other: SegmentTable) -> None:
        """Stored tokens as in `other`, which has the same layers and heads; the tail's place stays."""
        self._count, self._stored = list(other._count), list(other._stored)
        self._table, self._resident = other._table.copy(), other._resident.copy()

    def rebuild(self, groups: Sequence[Stored]) -> None:
        """The same tokens lie elsewhere: writes every row again."""
        for layer, stored in enumerate(self._stored):
            self._count[layer] = 0
            self.set_stored(layer, stored, groups)

    def set_stored(self, layer: int, tokens: int, groups: Sequence[Stored]) -> None:
        """Tokens [0, tokens) of the layer lie in `groups`, by position; the table may know the first ones already."""
        size = self._layout.extent_tokens
        count = len(groups)
        while count and groups[count - 1].first >= tokens:
            count -= 1
        if count + 1 > self._table.shape[2]:
            grown = np.zeros((self._layout.layers, self._heads, 2 * count + 2), SEGMENT.dtype)
            grown[:, :, : self._table.shape[2]] = self._table
            self._table = grown
            resident, self._resident = self._resident, np.zeros(grown.shape[2], np.bool_)
            self._resident[: len(resident)] = resident
        table = self._table[layer]
        for i in range(max(0, min(self._count[layer], count) - 1), count):
            column, first, run = table[:, i], groups[i].first, groups[i].run
            inside = first % size
            end = min(first - inside + size, groups[i + 1].first if i + 1 < count else tokens, tokens)
            column["tokens"] = end - first
            column["first_position"] = first
            self._resident[i] = run is not None
            if run is not None:
                offset = inside * self._layout.row_nbytes
                column["k_addr"] = np.uint64(run.address + offset) + self._extent_offset[layer]
                column["v_addr"] = column["k_addr"] + self._half
                column["crc_addr"] = np.uint64(run.crc_address + offset // PAGE_BYTES * 8) + self._crc_offset[layer]
        self._count[layer], self._stored[layer] = count, tokens

    def evict(self, number: int) -> None:
        """The group has left card memory, in all layers."""
        if number < len(self._resident):
            self._resident[number] = False

    def count(self, layer: int) -> int:
        """Groups that hold tokens of the layer."""
        return self._count[layer]

    def absent(self, layer: int, skip: int) -> list[int]:
        """Groups from number `skip` on that hold tokens and are not in card memory."""
        found: list[int] = (np.flatnonzero(~self._resident[skip : self._count[layer]]) + skip).tolist()
        return found

    def heads_of(self, layer: int, number: int) -> Segments:
        """[heads]: tokens and first position of a group, in card memory or not. A view."""
        column: Segments = self._table[layer, :, number]
        return column

    def segments(self, layer: int, skip: int, live: int, row: int) -> Segments:
        """[heads, segments]: groups in card memory from number `skip` on, then `live` tail tokens from slot row `row`.
        May be a view: valid until the next call for this layer."""
        count = self._count[layer]
        table: Segments = self._table[layer]
        resident = self._resident[skip:count]
        if not resident.all():
            columns = np.flatnonzero(resident) + skip
            if live:
                self._set_tail(layer, live, row)
                columns = np.append(columns, count)
            return table[:, columns]
        if not live:
            return table[:, skip:count]
        self._set_tail(layer, live, row)
        return table[:, skip : count + 1]

    def _set_tail(self, layer: int, live: int, row: int) -> None:
        column = self._table[layer, :, self._count[layer]]
        column["tokens"] = live
        column["first_position"] = self._stored[layer]
        column["k_addr"] = self._tail[layer] + np.uint64(row * self._layout.row_nbytes)
        column["v_addr"] = column["k_addr"] + self._tail_half
        column["crc_addr"] = 0

    def tail_addresses(self, layer: int, head: int, row: int) -> tuple[int, int]:
        """Device addresses (K, V) of a tail row."""
        address = int(self._tail[layer, head]) + row * self._layout.row_nbytes
        return address, address + int(self._tail_half)
