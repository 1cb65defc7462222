# SPDX-License-Identifier: Apache-2.0
"""Cycles of one kernel start, as a formula of what the list holds, fitted to the cycle-level runs of the RTL.

`benchmarks/kernel_cycles.py` makes the coefficients and shows what the formula misses. It knows nothing of drives or
hosts: all bytes are in card memory.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

from nearkv_driver.regmap import BLOCK_TOKENS, JOB, LANE_PAD, PAGE_BYTES, SEGMENT, TILE_TOKENS, WORD_BYTES
from nearkv_driver.sizes import padded

from nearkv.layout import ELEMENT_NBYTES

DDR4, IDEAL = MEMORIES = ("ddr4-2400", "ideal")  # what the kernel was measured behind
ROWS_OF_ARRAY = 8  # query rows that the array takes in one walk


@dataclass(frozen=True)
class JobShape:
    """One job: stored tokens of one KV head in checked extents, `rows` query rows, `new` rows in the message."""

    head_size: int
    rows: int
    tokens: int
    new: int = 1

    @property
    def padded(self) -> int:
        return padded(self.head_size)

    @property
    def _row_nbytes(self) -> int:
        """Of K (or of V) of one token."""
        return self.padded * ELEMENT_NBYTES

    @property
    def kv_words(self) -> int:
        """Words of K and V that the kv port reads."""
        return 2 * self.tokens * self._row_nbytes // WORD_BYTES

    @property
    def walks(self) -> int:
        """How often the array walks each block."""
        return -(-self.rows // ROWS_OF_ARRAY)

    @property
    def array_cycles(self) -> int:
        """Cycles that the array needs at one word each, whole tiles of V."""
        return self.walks * 2 * -(-(self.tokens + self.new) // TILE_TOKENS) * TILE_TOKENS * self.padded // LANE_PAD

    @property
    def list_words(self) -> int:
        """Words of descriptors, limits, segments, checksums, q and new rows on the ctl port."""
        extents = -(-self.tokens // BLOCK_TOKENS)
        pages = 2 * -(-self.tokens * self._row_nbytes // PAGE_BYTES)
        nbytes = JOB.nbytes + WORD_BYTES + extents * SEGMENT.nbytes + pages * 4
        return -(-nbytes // WORD_BYTES) + (self.rows * self.padded * 4 + 2 * self.new * self._row_nbytes) // WORD_BYTES


@dataclass(frozen=True)
class Coefficients:
    """Cycles: of a start; of the first block, per 32 columns; of a job; of each word of K and V and of the list where
    the port bounds; of each step of the array where the array does."""

    start: float
    first_block: float
    job: float
    kv_word: float
    list_word: float
    array: float


FEATURES = tuple(field.name for field in fields(Coefficients))


def bound(shape: JobShape) -> str:
    """What sets the pace: up to eight rows the port, more rows the array."""
    return "port" if shape.walks == 1 else "array"


def features(shape: JobShape, count: float) -> dict[str, float]:
    """What each coefficient is multiplied with, for `count` equal jobs in one list."""
    port = bound(shape) == "port"
    return {
        "start": 1,
        "first_block": shape.padded / LANE_PAD,
        "job": count,
        "kv_word": count * shape.kv_words if port else 0,
        "list_word": count * shape.list_words if port else 0,
        "array": 0 if port else count * shape.array_cycles,
    }


def cycles(shape: JobShape, count: float, c: Coefficients) -> float:
    """Cycles of a list of `count` equal jobs."""
    parts: list[float] = [getattr(c, name) * value for name, value in features(shape, count).items()]
    return sum(parts)


def nbytes_per_cycle(shape: JobShape, c: Coefficients) -> float:
    """K and V per cycle of a long list: what a stream of such jobs is paced by."""
    if bound(shape) == "port":
        return WORD_BYTES / (c.kv_word + c.list_word * shape.list_words / max(1, shape.kv_words))
    return WORD_BYTES / (c.array * shape.array_cycles / max(1, shape.kv_words))


@cache
def fitted(memory: str = DDR4) -> Coefficients:
    """The coefficients that belong to this version of the RTL, behind that memory."""
    text = files("nearkv.planner").joinpath("kernel_figures.toml").read_text(encoding="utf-8")
    return Coefficients(**tomllib.loads(text)[memory])
