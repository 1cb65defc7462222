# SPDX-License-Identifier: Apache-2.0
"""The write buffer of one sequence: rows in host RAM that are newer than its last unit on flash. Writes no file.

Every layer has a slot of rows per KV head. Card memory holds a mirror with the same row numbers, so a row's place is
one number for both. Live rows lie together; new ones go behind them, and to the slot's start when its end is reached.
A slot has room for twice the rows that may be live before a call, and 64: so 64 more always fit without touching a live
one, whatever came before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from nearkv_driver.regmap import NEW_TOKENS_MAX
from numpy.typing import NDArray

from nearkv.layout import ModelLayout

Half = np.float16


@dataclass
class WriteBuffer:
    """Bytes of live tail rows of all sequences and of the copies that are being written, and the most there ever were.

    `spill_units` full units start a spill. `limit_nbytes` is what the tails that were open at one time may hold.
    """

    spill_units: int = 1
    nbytes: int = 0
    peak_nbytes: int = 0
    limit_nbytes: int = 0
    _open_nbytes: int = 0

    def add(self, nbytes: int) -> None:
        self.nbytes += nbytes
        self.peak_nbytes = max(self.peak_nbytes, self.nbytes)

    def allow(self, nbytes: int) -> None:
        """A tail that may hold so much was opened (or, below zero, closed)."""
        self._open_nbytes += nbytes
        self.limit_nbytes = max(self.limit_nbytes, self._open_nbytes)


def live_rows_max(layout: ModelLayout, spill_units: int) -> int:
    """Rows of a layer that may be live when a call adds some: those of a spill that is under way, and a unit."""
    return (spill_units + 1) * layout.unit_tokens


def slot_rows(layout: ModelLayout, spill_units: int) -> int:
    """Rows of one slot, in RAM and on the card."""
    return slot_rows_of(layout.unit_tokens, spill_units)


def slot_rows_of(unit_tokens: int, spill_units: int) -> int:
    """The same where only a unit is known."""
    return 2 * (spill_units + 1) * unit_tokens + NEW_TOKENS_MAX


class Tail:
    """Per layer: tokens [stored, end) are live, `row(layer, position)` is where one lies. `rows` is
    [layers, kv_heads, 2 (K, V), slot_rows, d_pad]; padding is zero and stays zero."""

    def __init__(self, layout: ModelLayout, buffer: WriteBuffer) -> None:
        self._layout, self._buffer = layout, buffer
        self._token_nbytes = layout.kv_heads * 2 * layout.row_nbytes
        self.slot_rows = slot_rows(layout, buffer.spill_units)
        shape = (layout.layers, layout.kv_heads, 2, self.slot_rows, layout.d_pad)
        self.rows: NDArray[np.float16] = np.zeros(shape, Half)
        self.stored = [0] * layout.layers
        self.end = [0] * layout.layers
        self._first = [0] * layout.layers  # position that row 0 of the slot stands for; may be negative
        # Live rows after a call, and the copy of whole units that a spill writes.
        most = live_rows_max(layout, buffer.spill_units) + NEW_TOKENS_MAX
        self._limit_nbytes = 2 * most * layout.layers * self._token_nbytes
        buffer.allow(self._limit_nbytes)

    def live(self, layer: int) -> int:
        return self.end[layer] - self.stored[layer]

    def row(self, layer: int, position: int) -> int:
        return position - self._first[layer]

    def fits(self, layer: int, count: int) -> bool:
        """Whether `count` rows fit behind the live ones."""
        return self.row(layer, self.end[layer]) + count <= self.slot_rows

    def spare(self, layer: int, count: int) -> int:
        """First of `count` rows that are not live: at the slot's start if they fit there, else behind the live ones."""
        if self.row(layer, self.stored[layer]) >= count or not self.live(layer):
            return 0
        if not self.fits(layer, count):
            raise ValueError(f"{count} rows do not fit beside {self.live(layer)} live ones of {self.slot_rows}")
        return self.row(layer, self.end[layer])

    def read(self, layer: int, first: int, end: int) -> NDArray[np.float16]:
        """View of live positions [first, end): [kv_heads, 2, tokens, d_pad]."""
        if not self.stored[layer] <= first <= end <= self.end[layer]:
            raise ValueError(f"[{first}, {end}) is not in the tail [{self.stored[layer]}, {self.end[layer]})")
        return self.at(layer, self.row(layer, first), end - first)

    def at(self, layer: int, row: int, count: int) -> NDArray[np.float16]:
        """View of `count` rows of the slot, live or not."""
        return self.rows[layer, :, :, row : row + count]

    def put(self, layer: int, row: int, k: NDArray[np.float16], v: NDArray[np.float16]) -> None:
        """Writes k and v [kv_heads, n, head_size or d_pad] at `row`; they are not live until `settle`."""
        end, d = row + k.shape[1], k.shape[2]
        self.rows[layer, :, 0, row:end, :d] = k
        self.rows[layer, :, 1, row:end, :d] = v

    def settle(self, layer: int, stored: int, end: int, row: int | None = None) -> None:
        """From now on [stored, end) is live; with `row`, position `stored` lies there (else rows keep their place)."""
        self._buffer.add((end - stored - self.live(layer)) * self._token_nbytes)
        if row is not None:
            self._first[layer] = stored - row
        elif stored == end:
            self._first[layer] = stored
        self.stored[layer], self.end[layer] = stored, end

    def close(self) -> None:
        """Takes this sequence's rows out of the account."""
        for layer in range(self._layout.layers):
            self.settle(layer, self.end[layer], self.end[layer])
        self._buffer.allow(-self._limit_nbytes)
        self._limit_nbytes = 0
