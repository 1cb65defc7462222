# SPDX-License-Identifier: Apache-2.0
"""The kernel's view of one sequence on one card: segment descriptors, kept ready between calls. Reads no memory.

One row per extent and, behind them, one for the tail. A step changes the tail's token count only; the rest is rewritten
when units are spilled, cropped or loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from nearkv_driver.commands import SegmentTable as Segments
from nearkv_driver.regmap import SEGMENT

from nearkv.extents import ExtentRun
from nearkv.layout import ModelLayout
from nearkv.pages import extents


class SegmentTable:
    """Segments of each layer and head; `tail_address` is where the card-side tail of the sequence begins."""

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

    def set_stored(self, layer: int, tokens: int, groups: Sequence[ExtentRun]) -> None:
        """Tokens [0, tokens) of the layer lie in `groups`, the first extents of which the table may know already."""
        size = self._layout.extent_tokens
        count = extents(tokens, size)
        if count + 1 > self._table.shape[2]:
            grown = np.zeros((self._layout.layers, self._heads, 2 * count + 2), SEGMENT.dtype)
            grown[:, :, : self._table.shape[2]] = self._table
            self._table = grown
        table = self._table[layer]
        for e in range(max(0, min(self._stored[layer], tokens) // size - 1), count):
            column, run = table[:, e], groups[e]
            column["tokens"] = min(size, tokens - e * size)
            column["first_position"] = e * size
            column["k_addr"] = np.uint64(run.address) + self._extent_offset[layer]
            column["v_addr"] = column["k_addr"] + self._half
            column["crc_addr"] = np.uint64(run.crc_address) + self._crc_offset[layer]
        self._count[layer], self._stored[layer] = count, tokens

    def segments(self, layer: int, skip: int, live: int, row: int) -> Segments:
        """[heads, segments]: extents from number `skip` on, then `live` tail tokens from slot row `row`. A view: valid
        until the next call for this layer."""
        count = self._count[layer]
        table: Segments = self._table[layer]
        if not live:
            return table[:, skip:count]
        column = table[:, count]
        column["tokens"] = live
        column["first_position"] = self._stored[layer]
        column["k_addr"] = self._tail[layer] + np.uint64(row * self._layout.row_nbytes)
        column["v_addr"] = column["k_addr"] + self._tail_half
        column["crc_addr"] = 0
        return table[:, skip : count + 1]

    def tail_addresses(self, layer: int, head: int, row: int) -> tuple[int, int]:
        """Device addresses (K, V) of a tail row."""
        address = int(self._tail[layer, head]) + row * self._layout.row_nbytes
        return address, address + int(self._tail_half)
