# SPDX-License-Identifier: Apache-2.0
"""Checks of what callers hand to the store, before anything is stored or sent. Pure; errors name the value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from nearkv_driver.encode import scale_constant
from nearkv_driver.regmap import NEW_TOKENS_MAX, POSITIONS_MAX, ROWS_MAX
from numpy.typing import NDArray

from nearkv.errors import UserError
from nearkv.layout import ModelLayout

_EXPONENT = np.uint16(0x7C00)
_BFLOAT_EXPONENT = np.uint16(0x7F80)


def check_name(name: str) -> None:
    """Text that the index of a volume gives back as it was; anything else would make the volume unreadable."""
    if not isinstance(name, str):
        raise TypeError(f"a sequence's name is of type {type(name).__name__}; it must be a string")
    if not name:
        raise UserError("a sequence's name is not empty; give None for one that vanishes at close")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"the sequence name {name!r} is not UTF-8 text at character {error.start}") from error


def check_layer(layer: int, layout: ModelLayout) -> None:
    """TypeError or UserError unless it is the number of a layer, from 0."""
    _whole("layer", layer)
    if not 0 <= layer < layout.layers:
        raise UserError(f"layer = {layer}; the model has layers 0 to {layout.layers - 1}")


def check_kv(k: NDArray[np.generic], v: NDArray[np.generic], batch: int, layout: ModelLayout) -> None:
    """Both float16 [batch, kv_heads, n, head_size]; for a bfloat16 layout uint16, the elements' bits."""
    kind = np.float16 if layout.dtype == "float16" else np.uint16
    for name, array in (("k", k), ("v", v)):
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{name} is {type(array).__name__}; a NumPy array of {layout.dtype} is expected")
        if array.dtype != kind:
            words = "" if kind is np.float16 else ", given as uint16 words"
            raise TypeError(f"{name} is {array.dtype}; K and V are stored as {layout.dtype}{words}")
        _shape(name, array, (batch, layout.kv_heads, None, layout.head_size))
    if k.shape != v.shape:
        raise UserError(f"k has {k.shape[2]} tokens, v has {v.shape[2]}")


def check_attends(layout: ModelLayout) -> None:
    """UserError where K and V of this type are stored but no card attends to them."""
    if layout.dtype != "float16":
        raise UserError(f"dtype = {layout.dtype!r}: K and V are stored and read back; attention takes float16")


def check_q(q: NDArray[np.float32], batch: int, layout: ModelLayout, new_tokens: int | None) -> None:
    """Float16 or float32 [batch, query_heads, n, head_size] with at most 64 rows per KV head."""
    if not isinstance(q, np.ndarray):
        raise TypeError(f"q is {type(q).__name__}; a NumPy array of float16 or float32 is expected")
    if q.dtype not in (np.float16, np.float32):
        raise TypeError(f"q is {q.dtype}; float16 or float32 is expected")
    _shape("q", q, (batch, layout.query_heads, None, layout.head_size))
    n = q.shape[2]
    if new_tokens is not None and new_tokens != n:
        raise UserError(f"q has {n} tokens, k and v have {new_tokens}")
    if n * layout.group > ROWS_MAX or n > NEW_TOKENS_MAX:
        most = min(ROWS_MAX // layout.group, NEW_TOKENS_MAX)
        raise UserError(f"{n} query tokens; with {layout.group} query heads per KV head a call takes at most {most}")


def check_scale(scale: float, window: int) -> None:
    """TypeError or UserError unless a kernel can take the scale, and `window` is a count of tokens; 0 for none."""
    try:
        scale_constant(scale)
    except ValueError as error:
        raise UserError(str(error)) from None
    _whole("window", window)
    if not 0 <= window < POSITIONS_MAX:
        raise UserError(f"window = {window}; 0 (none) to {POSITIONS_MAX - 1} is expected")


def check_length(tokens: int, sequence: int) -> None:
    """UserError where a sequence would pass the positions that a kernel can address."""
    if tokens > POSITIONS_MAX:
        raise UserError(f"sequence {sequence} would hold {tokens} tokens; the limit is {POSITIONS_MAX}")


def picks_of(valid: NDArray[np.bool_] | None, batch: int, n: int) -> list[NDArray[np.intp] | None]:
    """Per sequence the tokens that count; None where all do."""
    if valid is None:
        return [None] * batch
    if valid.dtype != np.bool_:
        raise TypeError(f"valid is {valid.dtype}; bool is expected")
    _shape("valid", valid, (batch, n))
    return [None if row.all() else np.flatnonzero(row) for row in valid]


def pick(array: NDArray[np.float16], picks: NDArray[np.intp] | None) -> NDArray[np.float16]:
    """Rows of [kv_heads, n, head_size] that count."""
    return array if picks is None else array[:, picks]


def check_finite(
    k: NDArray[np.float16], v: NDArray[np.float16], layer: int, sequence: int, layout: ModelLayout
) -> None:
    """[kv_heads, n, head_size] without Inf and NaN; the error names layer, sequence, KV head and value."""
    is_half = layout.dtype == "float16"
    exponent = _EXPONENT if is_half else _BFLOAT_EXPONENT
    for name, rows in (("K", k), ("V", v)):
        words = rows.view(np.uint16)
        bad = (words & exponent) == exponent
        if bad.any():
            head, token, _ = np.argwhere(bad)[0]
            value = rows[bad][0] if is_half else (words[bad][:1].astype(np.uint32) << 16).view(np.float32)[0]
            where = f"layer {layer}, sequence {sequence}, KV head {head}, new token {token}"
            most = "finite float16 (at most 65504)" if is_half else "finite bfloat16"
            raise UserError(f"{where}: {name} holds {value}; stored values are {most}")


def _whole(name: str, number: int) -> None:
    if not isinstance(number, int | np.integer):
        raise TypeError(f"{name} is {number!r}; a whole number is expected")


def _shape(name: str, array: NDArray[np.generic], wanted: Sequence[int | None]) -> None:
    if array.ndim != len(wanted) or any(w is not None and w != a for w, a in zip(wanted, array.shape, strict=True)):
        text = ", ".join("n" if w is None else str(w) for w in wanted)
        raise UserError(f"{name} has shape {array.shape}; [{text}] is expected")
