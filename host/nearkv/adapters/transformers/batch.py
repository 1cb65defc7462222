# SPDX-License-Identifier: Apache-2.0
"""Which tokens of a batch are stored: one record for all layers, by column of the caller's 2-D mask. No arithmetic.

A column is a token position of the padded batch; a row is a sequence of the store. Masked tokens are never stored, so a
sequence holds the visible columns of its row, in order. What was stored under one mask cannot be read under another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearkv.adapters.transformers.errors import ContextTooLong, UnsupportedFeature
from nearkv.adapters.transformers.handle import MaskHandle
from nearkv.adapters.transformers.store import Store
from nearkv.errors import UserError


@dataclass(frozen=True)
class Step:
    """One chunk: the sequences of its rows, and which of its tokens count (None: all)."""

    sequences: tuple[int, ...]
    valid: NDArray[np.bool_] | None


class Batch:
    """The sequences of a cache and the record of visible columns; `columns` counts those recorded."""

    def __init__(self, store: Store, max_positions: int | None) -> None:
        self._store, self._limit = store, max_positions
        self._sequences: tuple[int, ...] | None = None
        self._shown: NDArray[np.bool_] = np.zeros((0, 0), np.bool_)
        self._last: tuple[MaskHandle, int, Step] | None = None
        self._adopted = False
        self.columns = 0

    @property
    def size(self) -> int | None:
        """Rows of the batch; None before the first chunk."""
        return None if self._sequences is None else len(self._sequences)

    def adopt(self, sequences: Sequence[int], columns: int) -> None:
        """Begin with sequences of the store, which hold `columns` tokens each, all visible."""
        self._sequences, self._adopted = tuple(sequences), True
        self._record(np.ones((len(self._sequences), columns), np.bool_))

    def step(self, mask: MaskHandle, past: int, rows: int, n: int) -> Step:
        """Record or check `n` columns after `past`; every layer of a forward asks, the first one records.

        Raises UserError when the mask contradicts what is stored, ContextTooLong beyond the model's limit.
        """
        if self._last is not None and self._last[0] is mask and self._last[1] == past:
            return self._last[2]
        if self._sequences is not None and rows != len(self._sequences):
            raise UserError(f"the batch has {rows} rows, the cache holds {len(self._sequences)}; call reset() first")
        shown = _visible(mask, rows, past + n)
        self._check_past(shown, past, n)
        if mask.window:
            _refuse_holes(shown)
        counts = shown.sum(axis=1)
        if self._limit is not None and rows and int(counts.max()) > self._limit:
            raise ContextTooLong(int(counts.max()), self._limit)
        if self._sequences is None:
            self._sequences = self._new_sequences(rows)
        if self.columns == past:
            self._record(shown)
        new = shown[:, past:]
        step = Step(self._sequences, None if new.all() else np.ascontiguousarray(new))
        self._last = (mask, past, step)
        return step

    def _new_sequences(self, rows: int) -> tuple[int, ...]:
        """All of them, or none and the store's error."""
        made: list[int] = []
        try:
            for more in reversed(range(rows)):
                made.append(self._store.add_sequence(more=more))
        except BaseException:
            for sequence in made:
                self._store.free(sequence)
            raise
        return tuple(made)

    def _check_past(self, shown: NDArray[np.bool_], past: int, n: int) -> None:
        if self.columns not in (past, past + n):
            raise UserError(f"the layer holds {past} columns, the cache {self.columns}: a forward ended early; reset()")
        known = self._shown[:, : self.columns]
        if self._sequences is not None and not np.array_equal(shown[:, : self.columns], known):
            row, column = (int(i) for i in np.argwhere(shown[:, : self.columns] != known)[0])
            stored = "visible" if known[row, column] else "masked"
            raise UserError(
                f"attention_mask[{row}, {column}] = {int(shown[row, column])}, but that token was {stored} when it was "
                "processed; a mask cannot change for tokens that are already in the cache"
            )

    def _record(self, shown: NDArray[np.bool_]) -> None:
        rows, columns = shown.shape
        if rows != len(self._shown) or columns > self._shown.shape[1]:
            grown = np.zeros((rows, max(columns, 2 * self._shown.shape[1])), np.bool_)
            self._shown = grown
        self._shown[:, :columns] = shown
        self.columns = columns

    def crop(self, columns: int) -> None:
        """Keep the first `columns` columns, in every layer."""
        self._last = None
        if self._sequences is None or columns > self.columns:
            return
        if columns == 0 and not self._adopted:
            self.clear()
            return
        for sequence, count in zip(self._sequences, self._shown[:, :columns].sum(axis=1), strict=True):
            self._store.crop(sequence, int(count))
        self.columns = columns

    def covered(self, columns: int) -> int:
        """The most of the first `columns` columns whose visible tokens every layer of the store still has: fewer where
        a crop was broken off."""
        for sequence, shown in zip((self._sequences or ()) if columns else (), self._shown, strict=False):
            counts = np.cumsum(shown[:columns])
            columns = min(columns, int(np.searchsorted(counts, self._store.length(sequence), "right")))
        return columns

    def select(self, rows: Sequence[int]) -> None:
        """These rows in this order; a row that stands there several times is copied, one that does not is freed."""
        if self._sequences is None or list(rows) == list(range(len(self._sequences))):
            return
        self._last = None
        self._sequences = self._store.select(self._sequences, rows)
        self._shown = self._shown[list(rows)]

    def part(self, rows: slice) -> Batch:
        """Some rows as a batch of their own, for one forward; `join` takes them back."""
        if self._sequences is None:
            raise UserError("an empty cache has no rows to split")
        part = Batch(self._store, self._limit)
        part._sequences = self._sequences[rows]
        part._shown = self._shown[rows, : self.columns].copy()
        part.columns = self.columns
        return part

    def join(self, parts: Sequence[Batch]) -> None:
        """Records what parts have recorded; together they are all rows, in order."""
        self._last = None
        self._record(np.concatenate([part._shown[:, : part.columns] for part in parts]))

    def clear(self) -> None:
        """Free every sequence."""
        for sequence in self._sequences or ():
            self._store.free(sequence)
        self._sequences, self._last, self._adopted, self.columns = None, None, False, 0
        self._shown = np.zeros((0, 0), np.bool_)


def _visible(mask: MaskHandle, rows: int, columns: int) -> NDArray[np.bool_]:
    """The mask as [rows, columns], True where a token counts."""
    padding = mask.padding
    if padding is None:
        return np.ones((rows, columns), np.bool_)
    if tuple(padding.shape) != (rows, columns):
        raise UserError(f"attention_mask has shape {tuple(padding.shape)}; past and new tokens make {(rows, columns)}")
    array: NDArray[np.bool_] = padding.detach().to("cpu").bool().numpy()
    return array


def _refuse_holes(shown: NDArray[np.bool_]) -> None:
    """A sliding window counts columns, the store counts visible tokens: the two agree only without holes."""
    starts = np.diff(shown.astype(np.int8), axis=1, prepend=0) == 1
    holes = np.flatnonzero(starts.sum(axis=1) > 1)
    if len(holes):
        raise UnsupportedFeature(
            "attention_mask with masked tokens between visible ones", f"row {int(holes[0])}", "with a sliding window"
        )
