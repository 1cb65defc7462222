# SPDX-License-Identifier: Apache-2.0
"""A session's network without a model but with a real store: K and V that every position's whole past decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from nearkv.kvstore import KVStore
from nearkv.session.records import Sampling
from numpy.typing import NDArray


def digest(tokens: Sequence[int]) -> bytes:
    return blake2b(np.array(tokens, "<u4").tobytes(), digest_size=8).digest()


def next_token(tokens: Sequence[int]) -> int:
    return int.from_bytes(digest(tokens)[:2], "little") % 1000


def rows(store: KVStore, layer: int, tokens: Sequence[int]) -> NDArray[np.float16]:
    """K and V of the last of the tokens, [2, kv_heads, head_size], small whole numbers."""
    return _rows((2, store.layout.kv_heads, store.layout.head_size), layer, digest(tokens))


@lru_cache(maxsize=4096)
def _rows(shape: tuple[int, ...], layer: int, past: bytes) -> NDArray[np.float16]:
    seed = int.from_bytes(past, "little")
    return np.random.default_rng([seed, layer]).integers(-99, 100, shape).astype(np.float16)


class StoreNetwork:
    """`nearkv.session.steps.Network` over one open sequence; it keeps the tokens that it computed."""

    def __init__(self, store: KVStore, sequence: int, tokens: Sequence[int] = (), *, attends: bool = True) -> None:
        """`tokens` are those that the sequence holds already. Without `attends` rows are only stored."""
        self.store, self.sequence, self.tokens, self._attends = store, sequence, list(tokens), attends

    @property
    def cached(self) -> int:
        return self.store.length(self.sequence)

    @property
    def held(self) -> Sequence[int | None]:
        return self.store.token_ids(self.sequence)

    def guard(self, before_durable: Callable[[], None]) -> None:
        self.store.guard(self.sequence, before_durable)

    def crop(self, tokens: int) -> None:
        self.store.crop(self.sequence, tokens)
        del self.tokens[tokens:]

    def forward(self, tokens: Sequence[int]) -> list[int]:
        self.store.note(self.sequence, tokens)
        past = self.tokens[: self.cached]
        ends = [[*past, *tokens[: i + 1]] for i in range(len(tokens))]
        for layer in range(self.store.layout.layers):
            new = np.stack([rows(self.store, layer, end) for end in ends], 2)
            k, v = new[0][None], new[1][None]
            if self._attends and past and len(tokens) == 1:
                q = np.zeros((1, self.store.layout.query_heads, 1, self.store.layout.head_size), np.float32)
                self.store.attend(layer, [self.sequence], q, k, v, scale=0.125)
            else:
                self.store.append(layer, [self.sequence], k, v)
        self.tokens = [*past, *tokens]
        return self.tokens

    def choose(self, scores: list[int], sampling: Sampling, position: int) -> int:
        assert len(scores) == position
        return next_token(scores)

    def flush(self) -> None:
        self.store.flush()

    def check(self, tokens: Sequence[int]) -> None:
        """The store holds exactly the K and V of these tokens."""
        assert self.cached == len(tokens)
        for layer in range(self.store.layout.layers) if tokens else ():
            held = np.stack(self.store.read(layer, self.sequence))
            wanted = np.stack([rows(self.store, layer, tokens[: i + 1]) for i in range(len(tokens))], 2)
            np.testing.assert_array_equal(held, wanted)
