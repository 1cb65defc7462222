# SPDX-License-Identifier: Apache-2.0
"""A store in memory with KVStore's calls: float64 attention in NumPy, so adapter tests need no card. Counts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class FakeStore:
    """Rows per (sequence, layer); refuses unknown sequences as the real store does. `calls` records what was asked."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[int, tuple[NDArray[np.float16], NDArray[np.float16]]]] = {}
        self.calls: list[str] = []
        self.query_tokens: list[int] = []
        self.closed = False
        self.fail_at_layer: int | None = None
        self._next = 0

    def add_sequence(self, *, more: int = 0) -> int:
        self._next += 1
        self.rows[self._next] = {}
        return self._next

    def length(self, sequence: int, layer: int | None = None) -> int:
        """Without a layer: tokens that all layers hold which hold any."""
        if layer is None:
            return min((held[0].shape[1] for held in self._of(sequence).values()), default=0)
        held = self._of(sequence).get(layer)
        return 0 if held is None else held[0].shape[1]

    def append(self, layer: int, sequences: Sequence[int], k: Any, v: Any, valid: Any = None) -> None:
        self._note("append", layer)
        self._add(layer, sequences, k, v, valid)

    def attend(
        self,
        layer: int,
        sequences: Sequence[int],
        q: Any,
        k: Any = None,
        v: Any = None,
        *,
        scale: float,
        window: int = 0,
        valid: Any = None,
    ) -> tuple[Any, Any]:
        self._note("attend", layer)
        self.query_tokens.append(q.shape[2])
        assert q.dtype == np.float32
        self._add(layer, sequences, k, v, valid)
        out = np.zeros(q.shape, np.float32)
        lse = np.full(q.shape[:3], -np.inf)
        for b, sequence in enumerate(sequences):
            keys, values = (x.astype(np.float64) for x in self._of(sequence)[layer])
            tokens = np.flatnonzero(valid[b]) if valid is not None else np.arange(q.shape[2])
            group = q.shape[1] // keys.shape[0]
            end = keys.shape[1]
            for i, t in enumerate(tokens):
                limit = end - len(tokens) + i + 1
                first = max(0, limit - window) if window else 0
                for h in range(q.shape[1]):
                    score = keys[h // group, first:limit] @ q[b, h, t].astype(np.float64) * scale
                    weight = np.exp(score - score.max())
                    out[b, h, t] = weight @ values[h // group, first:limit] / weight.sum()
                    lse[b, h, t] = score.max() + np.log(weight.sum())
        return out, lse

    def read(self, layer: int, sequence: int) -> tuple[Any, Any]:
        self._note("read", layer)
        k, v = self._of(sequence)[layer]
        return k.copy(), v.copy()

    def crop(self, sequence: int, length: int) -> None:
        layers = self._of(sequence)
        for layer, (k, v) in layers.items():
            layers[layer] = (k[:, :length], v[:, :length])

    def select(self, sequences: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
        chosen, used = [], set[int]()
        for row in order:
            sequence = sequences[row]
            if row in used:
                sequence = self.add_sequence()
                self.rows[sequence] = dict(self._of(sequences[row]))
            used.add(row)
            chosen.append(sequence)
        for row in set(range(len(sequences))) - used:
            self.free(sequences[row])
        return tuple(chosen)

    def free(self, sequence: int) -> None:
        self._of(sequence)
        del self.rows[sequence]

    def stats(self) -> Any:
        return None

    def close(self) -> None:
        self.closed = True

    def _add(self, layer: int, sequences: Sequence[int], k: Any, v: Any, valid: Any) -> None:
        assert k.dtype == v.dtype == np.float16
        for b, sequence in enumerate(sequences):
            keep = slice(None) if valid is None else valid[b]
            old = self._of(sequence).get(layer, (k[b][:, :0], v[b][:, :0]))
            new = (k[b][:, keep], v[b][:, keep])
            self.rows[sequence][layer] = tuple(np.concatenate(pair, axis=1) for pair in zip(old, new, strict=True))  # type: ignore[assignment]

    def _of(self, sequence: int) -> dict[int, tuple[Any, Any]]:
        if sequence not in self.rows:
            raise ValueError(f"no sequence {sequence}")
        return self.rows[sequence]

    def _note(self, what: str, layer: int) -> None:
        self.calls.append(what)
        if self.fail_at_layer == layer:
            self.fail_at_layer = None
            raise RuntimeError("planned failure")
