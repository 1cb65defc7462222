# SPDX-License-Identifier: Apache-2.0
"""One layer of NearStorageCache: hands out handles, then stores the new rows and computes attention over all of them.

Where it computes: the first chunk in torch; small later chunks (decode, draft verification) on the cards; larger later
chunks in torch over rows read back. It keeps no K or V itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from nearkv_driver.regmap import ROWS_MAX
from transformers.cache_utils import CacheLayerMixin

from nearkv.adapters.transformers import prefill, rows
from nearkv.adapters.transformers.batch import Batch, Step
from nearkv.adapters.transformers.engines import engine_for
from nearkv.adapters.transformers.errors import UnsupportedFeature
from nearkv.adapters.transformers.handle import KVHandle, MaskHandle
from nearkv.adapters.transformers.staging import Staging
from nearkv.adapters.transformers.store import Store
from nearkv.adapters.transformers.turns import Turn
from nearkv.errors import UserError
from nearkv.layout import ModelLayout


class Buffers:
    """The staging buffers of one forward, made when its device is known."""

    def __init__(self) -> None:
        self._device: torch.device | None = None
        self._staging: Staging | None = None

    def on(self, device: torch.device) -> Staging:
        if self._staging is None or device != self._device:
            self._staging, self._device = Staging(engine_for(device)), device
        return self._staging


class NearLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """`columns` counts the tokens of the padded batch that this layer has processed."""

    is_compileable = False
    is_croppable = True
    is_sliding = False  # every row is kept; a window is applied when reading
    supports_early_init = False

    def __init__(
        self,
        index: int,
        layout: ModelLayout,
        store: Store,
        batch: Batch,
        undo: Callable[[], None],
        *,
        buffers: Buffers,
        turn: Turn = nullcontext,
    ) -> None:
        """`buffers` are shared by the layers of one forward; the store is used inside `turn` only."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.index, self.columns, self.inexact_elements = index, 0, 0
        self._layout, self._store, self._batch, self._undo = layout, store, batch, undo
        self._buffers, self._turn = buffers, turn

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Handles for past and new tokens. Nothing is stored before the attention function runs."""
        self.lazy_initialization(key_states, value_states)
        wanted = (self._layout.kv_heads, self._layout.head_size)
        for name, x in (("K", key_states), ("V", value_states)):
            if (x.shape[1], x.shape[3]) != wanted:
                raise UnsupportedFeature(
                    f"layer {self.index}: {name} of (heads, head size)",
                    (x.shape[1], x.shape[3]),
                    f"the config says {wanted} for both K and V",
                )
        return KVHandle(self, key_states), KVHandle(self, value_states)

    def attend(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: MaskHandle, *, scale: float
    ) -> torch.Tensor:
        """q [B, Hq, n, d] and the new rows -> [B, Hq, n, d]; rows of masked tokens are zero.

        When it fails, the whole forward is undone in every layer: the cache is as before.
        """
        try:
            out = self._attend(q, k, v, mask, scale)
        except BaseException as error:
            try:
                self._undo()
            except Exception as second:
                error.add_note(f"the cache could not be put back to its state before: {second}")
            raise
        self.columns += q.shape[2]
        return out

    def _attend(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: MaskHandle, scale: float
    ) -> torch.Tensor:
        batch, _, n, _ = k.shape
        step = self._batch.step(mask, self.columns, batch, n)
        on_cards = self.columns > 0 and self._layout.group * n <= ROWS_MAX
        half_k, half_v = rows.halve(k), rows.halve(v)
        wanted = [half_k, half_v, rows.inexact(k, half_k, step.valid) + rows.inexact(v, half_v, step.valid)]
        if on_cards:
            wanted.append(q.detach().to(torch.float32))
        staging = self._buffers.on(q.device)
        fetch = staging.fetch(wanted)
        with self._turn():
            keys, values, lost = (arrays := fetch.wait())[:3]
            rows.check(keys, k, step.valid, layer=self.index, name="K")
            rows.check(values, v, step.valid, layer=self.index, name="V")
            if on_cards:
                found, _ = self._store.attend(
                    self.index,
                    step.sequences,
                    arrays[3],
                    keys,
                    values,
                    scale=scale,
                    window=mask.window,
                    valid=step.valid,
                )
            else:
                self._store.append(self.index, step.sequences, keys, values, step.valid)
        self.inexact_elements += int(lost)
        if on_cards:
            return staging.send(found)
        if self.columns == 0:
            return prefill.first_chunk(q, half_k, half_v, step.valid, scale=scale, window=mask.window)
        return self._read_back(q, staging, step, scale, mask.window)

    def _read_back(self, q: torch.Tensor, staging: Staging, step: Step, scale: float, window: int) -> torch.Tensor:
        """Attention of a large later chunk: the sequence's rows, new ones among them, come back one row at a time."""
        query = q.detach().to(torch.float32)
        out = torch.zeros_like(query)
        for b, sequence in enumerate(step.sequences):
            valid = slice(None) if step.valid is None else torch.from_numpy(np.flatnonzero(step.valid[b])).to(q.device)
            chosen = query[b : b + 1, :, valid]
            if chosen.shape[2] == 0:
                continue
            with self._turn():
                held = self._store.read(self.index, sequence)
            keys, values = (staging.send(x).to(torch.float32)[None] for x in held)
            out[b, :, valid] = prefill.causal(chosen, keys, values, scale=scale, window=window)[0]
        return out

    def get_seq_length(self) -> int:
        return self.columns

    def get_mask_sizes(self, query_length: int | torch.Tensor) -> tuple[int, int]:
        """Past and new columns, from column 0; older transformers pass the positions instead of their number."""
        n = query_length if isinstance(query_length, int) else len(query_length)
        return self.columns + n, 0

    def get_max_length(self) -> int:
        return -1

    def get_max_cache_shape(self) -> int:
        return -1

    def offload(self) -> None:
        """Nothing to move: no rows are held here."""

    def prefetch(self) -> None:
        """Nothing to move: no rows are held here."""

    def reset(self) -> None:
        raise UserError("a layer cannot be changed alone; call the cache's own method")

    def crop(self, tokens_to_remove: int) -> None:
        raise UserError("a layer cannot be changed alone; call the cache's own method")

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        raise UserError("a layer cannot be changed alone; call the cache's own method")
