# SPDX-License-Identifier: Apache-2.0
"""A store beside plain arrays: what was given to it, and exact attention over that, for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from nearkv import reference
from nearkv.card_store import CardStore
from nearkv.kvstore import KVStore
from nearkv.layout import ModelLayout
from nearkv.stream_options import StreamOptions
from nearkv.volume import Volume
from nearkv_driver.device import NearDevice
from nearkv_driver.registry import parse_url
from numpy.typing import NDArray

Halves = NDArray[np.float16]

# Output of the scheme is within 1e-7 of float64 before rounding (docs/arithmetic.md); FP32 rounding of O and of the
# quotient adds at most two units in the last place of values below 8.
TOLERANCE = 2e-6


def layout(**changes: object) -> ModelLayout:
    """Small: 2 layers, 4 query heads on 2 KV heads, head size 64."""
    values: dict[str, object] = {"model": "test", "layers": 2, "query_heads": 4, "kv_heads": 2, "head_size": 64}
    return ModelLayout(**{**values, **changes})  # type: ignore[arg-type]


def urls(count: int, folder: Path | None = None, *, kernel: str = "hls", options: str = "") -> list[str]:
    """Emulated cards, each with a volume in `folder` (None = a temporary one)."""
    volumes = [f"&ssd={folder}/card{i}" if folder else "" for i in range(count)]
    return [f"sw_emu:{i}?dram=64M&kernel={kernel}{volume}{options}" for i, volume in enumerate(volumes)]


def card_store(device: NearDevice, volume: Volume, shape: ModelLayout, *, p2p: bool = True) -> CardStore:
    """A card with what its URL says of memory and reads."""
    bank = device.info.banks[device.info.masters["kv"]]
    return CardStore(device, volume, shape, StreamOptions.of(parse_url(device.url), bank.nbytes, shape), p2p=p2p)


def die(store: KVStore) -> None:
    """Ends the store as the end of its process would: nothing is flushed."""
    store._sequences.clear()
    store._dropped.detach()
    store._resources.close()


class Mirror:
    """Drives a store and keeps the same rows in arrays; `attend` compares the answer with the oracle."""

    def __init__(self, store: KVStore, seed: int = 0) -> None:
        self.store, self.layout = store, store.layout
        self.random = np.random.default_rng(seed)
        self.rows: dict[tuple[int, int], tuple[Halves, Halves]] = {}
        self.scale = store.layout.head_size**-0.5

    def add(self, name: str | None = None) -> int:
        sequence = self.store.add_sequence(name)
        self.forget(sequence)
        return sequence

    def forget(self, sequence: int) -> None:
        empty = np.zeros((self.layout.kv_heads, 0, self.layout.head_size), np.float16)
        for layer in range(self.layout.layers):
            self.rows[sequence, layer] = (empty, empty)

    def draw(self, batch: int, n: int) -> tuple[NDArray[np.float32], Halves, Halves]:
        """(q, k, v) for a call."""
        d = self.layout.head_size
        q = self.random.normal(size=(batch, self.layout.query_heads, n, d)).astype(np.float32)
        k, v = (self.random.normal(size=(batch, self.layout.kv_heads, n, d)).astype(np.float16) for _ in range(2))
        return q, k, v

    def append(self, sequences: Sequence[int], n: int, layers: Sequence[int] | None = None) -> None:
        for layer in range(self.layout.layers) if layers is None else layers:
            _, k, v = self.draw(len(sequences), n)
            self.store.append(layer, sequences, k, v)
            self._keep(layer, sequences, k, v)

    def step(
        self, sequences: Sequence[int], n: int = 1, window: int = 0, valid: NDArray[np.bool_] | None = None
    ) -> None:
        """One decode step of all layers, compared; rows that are not valid hold NaN."""
        for layer in range(self.layout.layers):
            q, k, v = self.draw(len(sequences), n)
            if valid is not None:
                for array in (q, k, v):
                    array[np.broadcast_to(~valid[:, None, :, None], array.shape)] = np.nan
            out, lse = self.store.attend(layer, sequences, q, k, v, scale=self.scale, window=window, valid=valid)
            self._keep(layer, sequences, k, v, valid)
            self._compare(layer, sequences, q, out, lse, window, valid)

    def query(self, sequences: Sequence[int], n: int = 1) -> list[NDArray[np.float32]]:
        """Queries without new rows, compared; outputs by layer."""
        outs = []
        for layer in range(self.layout.layers):
            q, _, _ = self.draw(len(sequences), n)
            out, lse = self.store.attend(layer, sequences, q, scale=self.scale)
            keys, values = ([self.rows[s, layer][i] for s in sequences] for i in (0, 1))
            want, want_lse = reference.attend(q, keys, values, scale=self.scale, causal=False)
            np.testing.assert_allclose(out, want, rtol=0, atol=TOLERANCE)
            np.testing.assert_allclose(lse, want_lse, rtol=0, atol=TOLERANCE)
            outs.append(out)
        return outs

    def crop(self, sequence: int, length: int) -> None:
        self.store.crop(sequence, length)
        for layer in range(self.layout.layers):
            k, v = self.rows[sequence, layer]
            self.rows[sequence, layer] = k[:, :length], v[:, :length]

    def fork(self, sequence: int) -> int:
        child = self.store.fork(sequence)
        for layer in range(self.layout.layers):
            self.rows[child, layer] = self.rows[sequence, layer]
        return child

    def select(self, sequences: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
        """`KVStore.select`; rows of freed sequences are forgotten."""
        before = [[self.rows.pop((s, layer)) for layer in range(self.layout.layers)] for s in sequences]
        chosen = self.store.select(sequences, order)
        for sequence, row in zip(chosen, order, strict=True):
            for layer in range(self.layout.layers):
                self.rows[sequence, layer] = before[row][layer]
        return chosen

    def moved(self, old: int, new: int, length: int) -> None:
        """Sequence `old` is known as `new` from now on, with its first `length` tokens."""
        for layer in range(self.layout.layers):
            k, v = self.rows.pop((old, layer))
            self.rows[new, layer] = k[:, :length], v[:, :length]

    def copied(self, old: int, new: int, length: int | None = None) -> int:
        """Sequence `new` holds the first `length` tokens (None: all) of `old`."""
        for layer in range(self.layout.layers):
            k, v = self.rows[old, layer]
            self.rows[new, layer] = k[:, :length], v[:, :length]
        return new

    def check_rows(self, sequence: int) -> None:
        """What the store reads back is what it was given, bit for bit."""
        for layer in range(self.layout.layers):
            for got, want in zip(self.store.read(layer, sequence), self.rows[sequence, layer], strict=True):
                np.testing.assert_array_equal(got.view(np.uint16), want.view(np.uint16))

    def _keep(
        self, layer: int, sequences: Sequence[int], k: Halves, v: Halves, valid: NDArray[np.bool_] | None = None
    ) -> None:
        for b, sequence in enumerate(sequences):
            some = slice(None) if valid is None else valid[b]
            old_k, old_v = self.rows[sequence, layer]
            new = np.concatenate([old_k, k[b][:, some]], 1), np.concatenate([old_v, v[b][:, some]], 1)
            self.rows[sequence, layer] = new

    def _compare(
        self,
        layer: int,
        sequences: Sequence[int],
        q: NDArray[np.float32],
        out: NDArray[np.float32],
        lse: NDArray[np.float64],
        window: int,
        valid: NDArray[np.bool_] | None,
    ) -> None:
        for b, sequence in enumerate(sequences):
            some = np.ones(q.shape[2], bool) if valid is None else valid[b]
            k, v = self.rows[sequence, layer]
            want, want_lse = reference.attend(q[b : b + 1, :, some], [k], [v], scale=self.scale, window=window)
            np.testing.assert_allclose(out[b][:, some], want[0], rtol=0, atol=TOLERANCE)
            np.testing.assert_allclose(lse[b][:, some], want_lse[0], rtol=0, atol=TOLERANCE)
            assert not out[b][:, ~some].any()
            assert np.isneginf(lse[b][:, ~some]).all()
