# SPDX-License-Identifier: Apache-2.0
"""What the adapter asks of a store; `nearkv.kvstore.KVStore` is the one there is. No torch here: arrays are NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nearkv.stats import StoreStats

Half = NDArray[np.float16]
Rows = NDArray[np.float32]
Valid = NDArray[np.bool_]


class Store(Protocol):
    """Sequences of K and V rows per layer. `valid` marks the rows that count; the others are not stored."""

    def add_sequence(self, *, more: int = 0) -> int: ...

    def length(self, sequence: int) -> int: ...

    def append(self, layer: int, sequences: Sequence[int], k: Half, v: Half, valid: Valid | None = None) -> None: ...

    def attend(
        self,
        layer: int,
        sequences: Sequence[int],
        q: Rows,
        k: Half,
        v: Half,
        *,
        scale: float,
        window: int = 0,
        valid: Valid | None = None,
    ) -> tuple[Rows, NDArray[Any]]: ...

    def read(self, layer: int, sequence: int) -> tuple[Half, Half]: ...

    def crop(self, sequence: int, length: int) -> None: ...

    def select(self, sequences: Sequence[int], order: Sequence[int]) -> tuple[int, ...]: ...

    def free(self, sequence: int) -> None: ...

    def stats(self) -> StoreStats: ...

    def close(self) -> None: ...
