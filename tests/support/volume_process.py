# SPDX-License-Identifier: Apache-2.0
"""A process that owns a volume, for tests of what happens beside it and after its end. Run as a module.

`python -m tests.support.volume_process FOLDER COMMAND`: `hold` opens a store and waits; `grow` adds tokens to the
sequence "a" and flushes, without end. One line per event on stdout: `open`, then `flushed N` for each flush that
returned.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from nearkv.kvstore import KVStore

from tests.support.stores import layout, urls


def rows(first: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, k, v of tokens [first, first + count), the same in every process."""
    parts = [np.random.default_rng([7, position]).normal(size=(8, 64)) for position in range(first, first + count)]
    block = np.stack(parts, 1)
    q = block[:4].astype(np.float32)[None]
    k, v = (block[i : i + 2].astype(np.float16)[None] for i in (4, 6))
    return q, k, v


def grow(store: KVStore, sequence: int, count: int) -> None:
    """One decode step of all layers per token."""
    for _ in range(count):
        q, k, v = rows(store.length(sequence), 1)
        for layer in range(store.layout.layers):
            store.attend(layer, [sequence], q, k, v, scale=0.125)


def main(folder: Path, command: str) -> None:
    with KVStore.open(layout(), urls(2, folder, kernel="model")) as store:
        sys.stdout.write("open\n")
        sys.stdout.flush()
        if command == "hold":
            sys.stdin.read()
            return
        sequence = store.add_sequence("a")
        while True:
            grow(store, sequence, 9)
            store.flush()
            sys.stdout.write(f"flushed {store.length(sequence)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
