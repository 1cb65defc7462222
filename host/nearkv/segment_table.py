# SPDX-License-Identifier: Apache-2.0
"""The kernel's view of one sequence on one card: segment descriptors, kept ready between calls. Reads no memory.

One row per extent that the card has and, behind them, one for the tail. A step changes the tail's token count only; the
rest is rewritten when units are spilled, cropped or loaded. Extents that are not in card memory have no address.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from nearkv_driver.commands import SegmentTable as Segments
from nearkv_driver.regmap import SEGMENT
from numpy.typing import NDArray

from nearkv.extents import ExtentRun
from nearkv.layout import ModelLayout
from nearkv.pages import WHOLE, Stripe, extents


class SegmentTable:
    """Segments of each layer and head; `tail_address` is where the card-side tail of the sequence begins (0 = none).

    Extents are counted among those of `stripe`.
    """

    def __init__(
        self, layout: ModelLayout, heads: int, tail_address: int, slot_rows: int, stripe: Stripe = WHOLE
    ) -> None:
        self._layout, self._heads, self._stripe = layout, heads, stripe
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

    def set_stored(self, layer: int, tokens: int, groups: Sequence[ExtentRun | None]) -> None:
        """Tokens [0, tokens) of the layer lie in `groups` (None: not in card memory), the first of which the table may
        know already."""
        size = self._layout.extent_tokens
        count = self._stripe.count(extents(tokens, size))
        if count + 1 > self._table.shape[2]:
            grown = np.zeros((self._layout.layers, self._heads, 2 * count + 2), SEGMENT.dtype)
            grown[:, :, : self._table.shape[2]] = self._table
            self._table = grown
            resident, self._resident = self._resident, np.zeros(grown.shape[2], np.bool_)
            self._resident[: len(resident)] = resident
        table = self._table[layer]
        for e in range(max(0, self._stripe.count(min(self._stored[layer], tokens) // size) - 1), count):
            column, run = table[:, e], groups[e]
            first = self._stripe.extent(e) * size
            column["tokens"] = min(size, tokens - first)
            column["first_position"] = first
            self._resident[e] = run is not None
            if run is not None:
                column["k_addr"] = np.uint64(run.address) + self._extent_offset[layer]
                column["v_addr"] = column["k_addr"] + self._half
                column["crc_addr"] = np.uint64(run.crc_address) + self._crc_offset[layer]
        self._count[layer], self._stored[layer] = count, tokens

    def evict(self, extent: int) -> None:
        """The extent has left card memory, in all layers."""
        if extent < len(self._resident):
            self._resident[extent] = False

    def count(self, layer: int) -> int:
        """Extents that hold tokens of the layer."""
        return self._count[layer]

    def absent(self, layer: int, skip: int) -> list[int]:
        """Extents from number `skip` on that hold tokens and are not in card memory."""
        found: list[int] = (np.flatnonzero(~self._resident[skip : self._count[layer]]) + skip).tolist()
        return found

    def heads_of(self, layer: int, extent: int) -> Segments:
        """[heads]: tokens and first position of an extent, in card memory or not. A view."""
        column: Segments = self._table[layer, :, extent]
        return column

    def segments(self, layer: int, skip: int, live: int, row: int) -> Segments:
        """[heads, segments]: extents in card memory from number `skip` on, then `live` tail tokens from slot row `row`.
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
