# SPDX-License-Identifier: Apache-2.0
"""Decode the number formats of GGUF tensors to FP32. Pure functions on bytes; no files.

A tensor is a run of blocks. Q8_0 and Q4_0 blocks are (scale FP16, 32 values), a Q4_1 block is (scale FP16, minimum
FP16, 32 values); 4-bit blocks keep elements 0 to 15 in the low and 16 to 31 in the high nibbles. Q4_0's values are
offset by 8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Block:
    """One format: `elements` per block of `nbytes`."""

    name: str
    elements: int
    nbytes: int


F32, F16, Q4_0, Q4_1, Q8_0, BF16 = 0, 1, 2, 3, 8, 30

BLOCKS = {
    F32: Block("F32", 1, 4),
    F16: Block("F16", 1, 2),
    Q4_0: Block("Q4_0", 32, 18),
    Q4_1: Block("Q4_1", 32, 20),
    Q8_0: Block("Q8_0", 32, 34),
    BF16: Block("BF16", 1, 2),
}


def decode(kind: int, raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The elements of whole blocks as a fresh flat FP32 array; `kind` is a key of BLOCKS."""
    if kind == F32:
        return raw.view("<f4").astype(np.float32)
    if kind == F16:
        return raw.view("<f2").astype(np.float32)
    if kind == BF16:
        wide = raw.view("<u2").astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32)
    rows = raw.reshape(-1, BLOCKS[kind].nbytes)
    scale = _fp16_column(rows, 0)
    if kind == Q8_0:
        return (rows[:, 2:].view(np.int8) * scale).reshape(-1)
    head = 4 if kind == Q4_1 else 2
    out = np.empty((len(rows), 32), np.float32)
    out[:, :16] = rows[:, head:] & 15
    out[:, 16:] = rows[:, head:] >> 4
    if kind == Q4_0:
        out -= 8
    out *= scale
    if kind == Q4_1:
        out += _fp16_column(rows, 2)
    return out.reshape(-1)


def _fp16_column(rows: NDArray[np.uint8], start: int) -> NDArray[np.float32]:
    """The FP16 at byte `start` of each block, as an FP32 column."""
    return rows[:, start : start + 2].copy().view("<f2").astype(np.float32)
