# SPDX-License-Identifier: Apache-2.0
"""A transformers model and a NearStorageCache of one sequence as what a session drives. Keeps no tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from nearkv.adapters.transformers.cache import NearStorageCache
from nearkv.kvstore import KVStore
from nearkv.models.cache_keyword import cache_keyword
from nearkv.session.records import Sampling


class SequenceNetwork:
    """`nearkv.session.steps.Network`. The cache holds one sequence of `store`."""

    def __init__(self, model: Any, cache: NearStorageCache, store: KVStore, sequence: int) -> None:
        self._model, self._cache, self._store, self._sequence = model, cache, store, sequence
        # A forward or crop has begun and not ended: some layers may hold more than others.
        self._unsettled = False
        self._keyword = cache_keyword(model)

    @property
    def cached(self) -> int:
        self._settle()
        return self._cache.get_seq_length()

    @property
    def held(self) -> Sequence[int | None]:
        return self._store.token_ids(self._sequence)

    def guard(self, before_durable: Callable[[], None]) -> None:
        self._store.guard(self._sequence, before_durable)

    def crop(self, tokens: int) -> None:
        if (drop := self.cached - tokens) > 0:
            self._unsettled = True
            self._cache.crop(-drop)
            self._unsettled = False

    def forward(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits [vocabulary] after the last of the tokens, float32 on the CPU."""
        self._settle()
        self._store.note(self._sequence, tokens)
        ids = torch.tensor([list(tokens)], dtype=torch.int64, device=self._model.device)
        self._unsettled = True
        with torch.inference_mode():
            out = self._model(input_ids=ids, use_cache=True, logits_to_keep=1, **{self._keyword: self._cache})
        logits: torch.Tensor = out.logits[0, -1].to("cpu", torch.float32)
        self._unsettled = False
        return logits

    def _settle(self) -> None:
        """What fails inside attention is undone there; Ctrl-C or trouble of the model may come between layers."""
        if self._unsettled:
            self._cache.undo()
            self._unsettled = False

    def choose(self, scores: torch.Tensor, sampling: Sampling, position: int) -> int:
        """The most probable token (the first of several), or one drawn by a generator that only `sampling.seed` and
        `position` decide."""
        if not sampling.temperature:
            return int(torch.argmax(scores))
        warped: torch.Tensor = _warpers(sampling)(None, scores[None])
        if not torch.isfinite(warped.max()):
            # So little temperature that scores pass float32: in the limit only the most probable token is left.
            return int(torch.argmax(scores))
        generator = torch.Generator("cpu").manual_seed(_seed(sampling.seed, position))
        return int(torch.multinomial(torch.softmax(warped[0], -1), 1, generator=generator))

    def flush(self) -> None:
        self._store.flush()


def _warpers(sampling: Sampling) -> Any:
    """In the order in which transformers applies them."""
    found: list[Any] = [TemperatureLogitsWarper(float(sampling.temperature))]
    if sampling.top_k:
        found.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        found.append(TopPLogitsWarper(float(sampling.top_p)))
    return LogitsProcessorList(found)


def _seed(seed: int, position: int) -> int:
    digest = blake2b(seed.to_bytes(8, "little") + position.to_bytes(8, "little"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
