# SPDX-License-Identifier: Apache-2.0
"""The cache object that users give to `generate`. Owns the store, its sequences and the switch of the config.

Beams, growth and shrink of the batch are index work in the store: no row is read or written again.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from transformers.cache_utils import Cache

from nearkv.adapters.transformers.batch import Batch
from nearkv.adapters.transformers.layer import Buffers, NearLayer
from nearkv.adapters.transformers.store import Store
from nearkv.adapters.transformers.support import check_config
from nearkv.adapters.transformers.switch import register, switch_off, switch_on
from nearkv.adapters.transformers.turns import Turn
from nearkv.errors import UserError
from nearkv.layout import ModelLayout
from nearkv.ownership import Owner
from nearkv.stats import StoreStats
from nearkv.timeline import Timeline

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

# Older transformers pass crop the length to keep (0 keeps nothing), newer ones the tokens to drop (0 drops nothing).
_CROP_TAKES_LENGTH = "tokens_to_remove" not in inspect.signature(Cache.crop).parameters


class NearStorageCache(Cache):
    """K and V of one batch, on cards; `model.generate(..., past_key_values=cache)` is all there is to call.

    config: the config object of the model that will use it (not a copy: transformers looks the attention function up
    there). cards: URLs. model_name: what volumes record; default the config's own. store: an open store instead of
    cards; it stays open when the cache closes. sequences: open sequences of that store, all of the same length, that
    are the batch from the start (default: the first forward makes its own). timeline: told what cards do when. While
    the cache is open, models on this config object compute attention through it when they get it, and as sdpa when they
    do not. No gradients flow through cached attention.
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        cards: Sequence[str] = (),
        *,
        model_name: str | None = None,
        store: Store | None = None,
        sequences: Sequence[int] = (),
        timeline: Timeline | None = None,
    ) -> None:
        text_config = config.get_text_config(decoder=True)
        if getattr(config, "is_encoder_decoder", False):
            text_config = config
        facts = check_config(text_config, model_name)
        if (store is None) == (len(cards) == 0):
            raise UserError("give at least one card URL, or a store (and not both)")
        if isinstance(cards, str):
            raise TypeError(f"cards is the text {cards!r}; give a list of URLs")
        columns = _common_length(store, sequences)
        self.layout: ModelLayout = facts.layout
        register()
        self._store: Store = _open(facts.layout, cards, timeline) if store is None else store
        self._batch = Batch(self._store, facts.max_positions)
        undo = weakref.WeakMethod(self._undo)
        self._buffers = [Buffers()]
        layers = [
            NearLayer(i, facts.layout, self._store, self._batch, lambda: _call(undo), buffers=self._buffers[0])
            for i in range(facts.layout.layers)
        ]
        super().__init__(layers=layers)  # type: ignore[arg-type]
        self._near_layers = layers
        if sequences:
            self._batch.adopt(sequences, columns)
            self._set_columns(columns)
        switch_on(text_config)
        owned = self._store if store is None else None
        self._release = weakref.finalize(self, _release, text_config, self._batch, owned, Owner("cache"))

    def __repr__(self) -> str:
        columns = self._near_layers[0].columns
        return f"NearStorageCache(model={self.layout.model!r}, batch_size={self.batch_size}, tokens={columns})"

    @property
    def inexact_elements(self) -> int:
        """Elements of BF16 K and V, all below 2^-17, that FP16 could not hold exactly."""
        return sum(layer.inexact_elements for layer in self._near_layers)

    @property
    def batch_size(self) -> int:
        return -1 if self._batch.size is None else self._batch.size

    @property
    def max_batch_size(self) -> int:
        return self.batch_size

    def stats(self) -> StoreStats:
        """What was stored, moved and computed so far, per card."""
        return self._store.stats()

    def reset(self) -> None:
        """Forget every token; the cards stay open."""
        self._batch.clear()
        self._set_columns(0)

    def crop(self, tokens_to_remove: int) -> None:
        """Drop the last `-tokens_to_remove` columns. A positive number is the length to keep, as older versions had it;
        0 means what it means in the transformers version at hand."""
        columns = min(layer.columns for layer in self._near_layers)
        if tokens_to_remove < 0:
            keep = max(0, columns + tokens_to_remove)
        elif tokens_to_remove > 0 or _CROP_TAKES_LENGTH:
            keep = min(columns, tokens_to_remove)
        else:
            keep = columns
        self._batch.crop(keep)
        self._set_columns(keep)

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Beam search: row i continues what row `beam_idx[i]` holds."""
        self.batch_select_indices(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Every row `repeats` times, copies side by side."""
        if repeats < 1:
            raise UserError(f"repeats = {repeats}; at least 1 is expected")
        if self._batch.size is not None:
            self._batch.select([row for row in range(self._batch.size) for _ in range(repeats)])

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """These rows of the batch (indices or booleans), in this order; the same row may be taken several times."""
        rows = torch.as_tensor(indices)
        rows = torch.nonzero(rows).flatten() if rows.dtype == torch.bool else rows.flatten()
        size = self._batch.size
        chosen = [int(i) for i in rows]
        if size is not None:
            outside = [i for i in chosen if not -size <= i < size]
            if outside:
                raise UserError(f"row {outside[0]} does not exist; the batch has {size} rows")
            self._batch.select([i % size for i in chosen])

    def split(self, parts: Sequence[slice], turn: Turn) -> list[CachePart]:
        """The rows of the batch as caches of their own for one forward each, which use the store inside `turn`; `join`
        or, when one failed, `undo` follows."""
        while len(self._buffers) < len(parts):
            self._buffers.append(Buffers())
        columns = min(layer.columns for layer in self._near_layers)
        return [
            CachePart(self.layout, self._store, self._batch.part(rows), columns, buffers, turn)
            for rows, buffers in zip(parts, self._buffers, strict=False)
        ]

    def join(self, parts: Sequence[CachePart]) -> None:
        """All parts have done their forward."""
        self._batch.join([part.batch for part in parts])
        for i, layer in enumerate(self._near_layers):
            layer.columns = parts[0].near_layers[i].columns
            layer.inexact_elements += sum(part.near_layers[i].inexact_elements for part in parts)

    def undo(self) -> None:
        """A forward or crop was broken off, wherever: back to what all layers hold."""
        self._undo()

    def close(self) -> None:
        """Free the sequences, close the cards, give the config its attention implementation back. May be repeated."""
        self._release()

    def __enter__(self) -> NearStorageCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _set_columns(self, columns: int) -> None:
        for layer in self._near_layers:
            layer.columns = columns

    def _undo(self) -> None:
        """Back to what all layers hold: the state before the forward that failed."""
        columns = self._batch.covered(min(layer.columns for layer in self._near_layers))
        self._batch.crop(columns)
        self._set_columns(columns)


class CachePart(Cache):
    """Some rows of a NearStorageCache, for the time of one forward."""

    def __init__(
        self, layout: ModelLayout, store: Store, batch: Batch, columns: int, buffers: Buffers, turn: Turn
    ) -> None:
        self.batch = batch
        self.near_layers = [
            NearLayer(i, layout, store, batch, _nothing, buffers=buffers, turn=turn) for i in range(layout.layers)
        ]
        for layer in self.near_layers:
            layer.columns = columns
        super().__init__(layers=self.near_layers)  # type: ignore[arg-type]


def _common_length(store: Store | None, sequences: Sequence[int]) -> int:
    if not sequences:
        return 0
    if store is None:
        raise UserError(f"sequences {list(sequences)} belong to a store; give it")
    lengths = [store.length(sequence) for sequence in sequences]
    if len(set(lengths)) > 1:
        raise UserError(f"sequences {list(sequences)} hold {lengths} tokens; a batch has as many in each")
    return lengths[0]


def _nothing() -> None:
    """A part that failed is undone with the others, by the whole cache."""


def _open(layout: ModelLayout, cards: Sequence[str], timeline: Timeline | None) -> Store:
    from nearkv.kvstore import KVStore

    store: Store = KVStore.open(layout, cards, timeline=timeline)
    return store


def _call(method: weakref.WeakMethod[Any]) -> None:
    bound = method()
    if bound is not None:
        bound()


def _release(config: PreTrainedConfig, batch: Batch, owned: Store | None, owner: Owner) -> None:
    try:
        if owned is not None:
            owned.close()
        elif owner.here:  # a process that was forked has nothing to give back when it ends
            batch.clear()
    finally:
        switch_off(config)
