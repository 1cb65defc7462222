# SPDX-License-Identifier: Apache-2.0
"""What of a model decides where its K and V lie: a checked value. Knows no card and no file."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from nearkv_driver.regmap import BLOCK_TOKENS, HEAD_SIZES, PAGE_BYTES, ROWS_MAX, TILE_TOKENS
from nearkv_driver.sizes import padded

from nearkv.errors import UserError

ELEMENT_NBYTES = 2
# bfloat16 is stored and read back, as raw words of uint16; attention on it is refused for now.
DTYPES = ("float16", "bfloat16")


@dataclass(frozen=True)
class ModelLayout:
    """Shape of a model's KV cache. `model` is the name that a volume records; sizes are checked at construction.

    A row is one token of one KV head: `d_pad` elements, of which the first `head_size` count and the rest are zero.
    A unit is the smallest multiple of 16 tokens that fills whole pages; an extent is 128 tokens of K, then 128 of V.
    """

    model: str
    layers: int
    query_heads: int
    kv_heads: int
    head_size: int
    dtype: str = "float16"

    def __post_init__(self) -> None:
        if not self.model:
            raise UserError("a layout needs the model's name")
        for name in ("layers", "query_heads", "kv_heads", "head_size"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise UserError(f"{name} = {value!r} must be a whole number of at least 1")
        if self.head_size not in HEAD_SIZES:
            raise UserError(f"head_size = {self.head_size} is not supported; the kernel takes {list(HEAD_SIZES)}")
        if self.query_heads % self.kv_heads:
            raise UserError(f"query_heads = {self.query_heads} is not a multiple of kv_heads = {self.kv_heads}")
        if self.group > ROWS_MAX:
            raise UserError(f"{self.group} query heads share a KV head; the kernel takes at most {ROWS_MAX}")
        if self.dtype not in DTYPES:
            raise UserError(f"dtype = {self.dtype!r} is not supported; K and V are stored as {list(DTYPES)}")

    @property
    def group(self) -> int:
        """Query heads that share one KV head."""
        return self.query_heads // self.kv_heads

    @property
    def d_pad(self) -> int:
        """Elements of a stored row."""
        return padded(self.head_size)

    @property
    def row_nbytes(self) -> int:
        return self.d_pad * ELEMENT_NBYTES

    @property
    def unit_tokens(self) -> int:
        """Tokens that are written to flash together."""
        return lcm(TILE_TOKENS * self.row_nbytes, PAGE_BYTES) // self.row_nbytes

    @property
    def unit_nbytes(self) -> int:
        """Bytes of K (and of V) of one unit: whole pages."""
        return self.unit_tokens * self.row_nbytes

    @property
    def unit_pages(self) -> int:
        return self.unit_nbytes // PAGE_BYTES

    @property
    def extent_tokens(self) -> int:
        return BLOCK_TOKENS

    @property
    def extent_nbytes(self) -> int:
        """Bytes of K and V of one extent."""
        return 2 * self.extent_tokens * self.row_nbytes

    @property
    def extent_units(self) -> int:
        return self.extent_tokens // self.unit_tokens

    @property
    def extent_pages(self) -> int:
        """Pages of K (and of V) in one extent."""
        return self.extent_units * self.unit_pages

    @property
    def slot_nbytes(self) -> int:
        """One extent of every layer for one KV head: what space on cards and volumes is given out in."""
        return self.layers * self.extent_nbytes

    def unit_crcs_nbytes(self, heads: int) -> int:
        """Checksums of a unit of all layers and so many heads: 8 bytes (K, V) per page."""
        return self.layers * heads * self.unit_pages * 8

    @property
    def kv_bytes_per_token(self) -> int:
        """Stored bytes of one token: K and V of every layer and KV head, padding included."""
        return self.layers * self.kv_heads * 2 * self.row_nbytes
