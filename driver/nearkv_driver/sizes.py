# SPDX-License-Identifier: Apache-2.0
"""Sizes that the kernel contract derives from head size and rows (docs/kernel-contract.md). All in bytes."""

from __future__ import annotations

from nearkv_driver.regmap import BINS, LANE_PAD, WORD_BYTES


def words(nbytes: int) -> int:
    """`nbytes` rounded up to whole 64-byte words."""
    return -(-nbytes // WORD_BYTES) * WORD_BYTES


def padded(head_size: int) -> int:
    """Elements from one stored row to the next (d_pad)."""
    return -(-head_size // LANE_PAD) * LANE_PAD


def state_nbytes(rows: int, head_size: int) -> int:
    """A state: int64 O [rows, bins, d_pad], then int64 [rows, bins + 1] = L and T, in whole words."""
    return rows * BINS * 8 * padded(head_size) + words(rows * (BINS + 1) * 8)


def output_nbytes(rows: int, head_size: int) -> int:
    """An output: FP32 O [rows, d_pad], then (L, T) per row, in whole words."""
    return rows * 4 * padded(head_size) + words(rows * 8)
